// Package controller lists all controllers of the operator, and what they share:
// the scheme, the caches with their limits, the engine.
package controller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	componentsv1alpha1 "github.com/slipway-dev/slipway/api/components/v1alpha1"
	datascienceclusterv2 "github.com/slipway-dev/slipway/api/datasciencecluster/v2"
	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/controller/datasciencecluster"
	"github.com/slipway-dev/slipway/internal/controller/llmd"
	"github.com/slipway-dev/slipway/internal/controller/llmdeployment"
	"github.com/slipway-dev/slipway/internal/controller/llmmodel"
	"github.com/slipway-dev/slipway/internal/controller/nvidiagpullm"
	"github.com/slipway-dev/slipway/internal/controller/platformstack"
	"github.com/slipway-dev/slipway/internal/controller/simulatordeployment"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/internal/reconcile/stack"
	"github.com/slipway-dev/slipway/internal/registry"
)

// shared is what every controller may use.
type shared struct {
	engine   *apply.Engine
	evidence *reconcile.Evidence
	charts   *registry.Client
}

// Options of the controllers.
type Options struct {
	// Controllers to set up, by name; empty means all.
	Controllers []string
	// Charts says where charts are kept; the zero value keeps what is fetched in
	// memory.
	Charts registry.Options
}

// list is every controller there is, by the name that --controllers takes, and the
// kinds of Slipway's own that it reads. A controller that runs alone needs no others.
var list = []struct {
	name  string
	kinds []client.Object
	setup func(ctrl.Manager, shared) error
}{
	{
		"llmmodel",
		[]client.Object{&llmv1alpha1.LLMModel{}, &llmv1alpha1.LLMDeployment{}},
		func(mgr ctrl.Manager, _ shared) error { return llmmodel.Setup(mgr) },
	},
	{
		"llmdeployment",
		[]client.Object{&llmv1alpha1.LLMModel{}, &llmv1alpha1.LLMDeployment{}},
		func(mgr ctrl.Manager, s shared) error { return llmdeployment.Setup(mgr, s.engine, s.evidence) },
	},
	{
		"simulatordeployment",
		[]client.Object{&simv1alpha1.SimulatorDeployment{}},
		func(mgr ctrl.Manager, s shared) error { return simulatordeployment.Setup(mgr, s.engine, s.evidence) },
	},
	{
		"llmd",
		[]client.Object{&componentsv1alpha1.Llmd{}},
		func(mgr ctrl.Manager, s shared) error { return llmd.Setup(mgr, s.charts) },
	},
	{
		"datasciencecluster",
		[]client.Object{&datascienceclusterv2.DataScienceCluster{}, &componentsv1alpha1.Llmd{}},
		func(mgr ctrl.Manager, s shared) error { return datasciencecluster.Setup(mgr, s.engine) },
	},
	{
		"platformstack",
		[]client.Object{&platformv1alpha1.PlatformStack{}},
		func(mgr ctrl.Manager, s shared) error {
			return platformstack.Setup(mgr, stack.Options{Charts: s.charts, Now: time.Now})
		},
	},
	{
		"nvidiagpullm",
		[]client.Object{&infrav1.NvidiaGpuLlm{}},
		func(mgr ctrl.Manager, s shared) error { return nvidiagpullm.Setup(mgr, s.engine, s.evidence) },
	},
}

// reads tells whether controllers, or any one if none is named, read a kind.
func reads(controllers []string, kind client.Object) bool {
	for _, each := range list {
		named := len(controllers) == 0 || slices.Contains(controllers, each.name)
		isKind := func(o client.Object) bool { return reflect.TypeOf(o) == reflect.TypeOf(kind) }
		if named && slices.ContainsFunc(each.kinds, isKind) {
			return true
		}
	}
	return false
}

// Names are the names of all controllers.
func Names() []string {
	names := make([]string, 0, len(list))
	for _, each := range list {
		names = append(names, each.name)
	}
	return names
}

// AddToScheme makes every kind that a controller reads or writes known.
func AddToScheme(scheme *runtime.Scheme) error {
	return errors.Join(
		clientgoscheme.AddToScheme(scheme),
		llmv1alpha1.AddToScheme(scheme),
		simv1alpha1.AddToScheme(scheme),
		infrav1.AddToScheme(scheme),
		componentsv1alpha1.AddToScheme(scheme),
		datascienceclusterv2.AddToScheme(scheme),
		platformv1alpha1.AddToScheme(scheme),
	)
}

// Setup adds controllers to a manager: those named, or all if none is.
func Setup(mgr ctrl.Manager, options Options) error {
	names := options.Controllers
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("no controller is named %q; write one of %s", name, strings.Join(Names(), ", "))
		}
	}
	if err := index(mgr, names); err != nil {
		return err
	}
	if options.Charts.Now == nil {
		options.Charts.Now = time.Now
	}
	common := shared{
		charts:   registry.New(options.Charts),
		engine:   apply.New(apply.Options{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Cache: mgr.GetCache()}),
		evidence: &reconcile.Evidence{Cached: mgr.GetClient(), Server: mgr.GetAPIReader(), Now: time.Now},
	}
	for _, each := range list {
		if len(names) > 0 && !slices.Contains(names, each.name) {
			continue
		}
		if err := each.setup(mgr, common); err != nil {
			return fmt.Errorf("controller %s: %w", each.name, err)
		}
	}
	return nil
}
