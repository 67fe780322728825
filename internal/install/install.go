// Package install puts the operator into a cluster and takes it out again: the
// namespace, the definitions of the kinds, the release of the embedded chart,
// and the wait until it runs. What it installs is what `helm install` of the
// same chart installs. It prints nothing, and it never removes a user's
// resources or their definitions unless it is told to.
//
// Each step can be repeated: an installation that was interrupted is finished by
// the next.
package install

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	charts "github.com/slipway-dev/slipway/helm-charts"
	"github.com/slipway-dev/slipway/internal/helm"
)

// Release is the name of the operator's release, and of its Deployment.
const Release = "llm-operator"

// Namespace is where the operator is installed unless told otherwise.
const Namespace = "llm-system"

// Options say what is installed.
type Options struct {
	// Image of the operator; empty means the chart's own.
	Image string
	// Set holds values as helm's --set takes them. They win over Image.
	Set []string
	// Timeout bounds the release, and then the wait, each.
	Timeout time.Duration
	// Wait until the operator is ready.
	Wait bool
	// ForceConflicts takes over fields that someone else has changed.
	ForceConflicts bool
	// TakeOwnership adopts objects of the chart's names that belong to no release.
	TakeOwnership bool
}

// Event is a step of the way. Of several events that aren't Final, only the
// newest is worth showing.
type Event struct {
	Text  string
	Final bool
}

// Installer works on one cluster.
type Installer struct {
	namespace string
	kube      kubernetes.Interface
	dynamic   dynamic.Interface
	client    client.Client
	helm      *helm.Client
	now       func() time.Time
	report    func(Event)
}

// New returns an installer for the cluster of config and one namespace. It tells
// its steps to report, one at a time.
func New(config *rest.Config, namespace string, now func() time.Time, report func(Event)) (*Installer, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	direct, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	return &Installer{
		namespace: namespace,
		kube:      kube,
		dynamic:   dynamicClient,
		client:    direct,
		helm:      helm.New(config, namespace, slog.DiscardHandler, now),
		now:       now,
		report:    report,
	}, nil
}

// Install installs the operator or brings it to this version and these options.
func (i *Installer) Install(ctx context.Context, options Options) (helm.Release, error) {
	request, err := i.request(options)
	if err != nil {
		return helm.Release{}, err
	}
	if err := i.ensureNamespace(ctx); err != nil {
		return helm.Release{}, err
	}
	if err := i.applyDefinitions(ctx); err != nil {
		return helm.Release{}, err
	}
	i.report(Event{Text: "release " + Release + ": applying"})
	release, err := i.helm.Apply(ctx, request)
	if err != nil {
		return helm.Release{}, err
	}
	verb := "upgraded"
	if release.Revision == 1 {
		verb = "installed"
	}
	i.report(Event{Text: fmt.Sprintf("release %s %s (revision %d)", release.Name, verb, release.Revision), Final: true})
	if !options.Wait {
		return release, nil
	}
	return release, i.waitForRelease(ctx, release, options.Timeout)
}

// DryRun returns, as YAML documents, everything that Install would apply. It
// reads the cluster and writes nothing.
func (i *Installer) DryRun(ctx context.Context, options Options) (string, error) {
	request, err := i.request(options)
	if err != nil {
		return "", err
	}
	request.DryRun = true
	release, err := i.helm.Apply(ctx, request)
	if err != nil {
		return "", err
	}
	namespace := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", i.namespace)
	documents := []string{namespace}
	files, err := definitionFiles()
	if err != nil {
		return "", err
	}
	for _, file := range files {
		content, err := fs.ReadFile(charts.Files, file)
		if err != nil {
			return "", err
		}
		documents = append(documents, strings.TrimPrefix(string(content), "---\n"))
	}
	documents = append(documents, strings.TrimPrefix(release.Manifest, "---\n"))
	return strings.Join(documents, "---\n"), nil
}

// request is the release that options ask for.
func (i *Installer) request(options Options) (helm.Request, error) {
	chart, err := helm.Load(charts.Files, charts.Operator)
	if err != nil {
		return helm.Request{}, err
	}
	values := map[string]any{}
	if options.Image != "" {
		image, err := imageValues(options.Image)
		if err != nil {
			return helm.Request{}, err
		}
		values["image"] = image
	}
	if err := helm.Set(values, options.Set); err != nil {
		return helm.Request{}, err
	}
	return helm.Request{
		Name:           Release,
		Chart:          chart,
		Values:         values,
		Timeout:        options.Timeout,
		ForceConflicts: options.ForceConflicts,
		TakeOwnership:  options.TakeOwnership,
	}, nil
}

// ensureNamespace creates the namespace if it isn't there.
func (i *Installer) ensureNamespace(ctx context.Context) error {
	namespaces := i.kube.CoreV1().Namespaces()
	found, err := namespaces.Get(ctx, i.namespace, metav1.GetOptions{})
	switch {
	case err == nil && found.DeletionTimestamp != nil:
		return fmt.Errorf("namespace %s is being deleted; wait until it is gone, or choose another with -n", i.namespace)
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read namespace %s: %w", i.namespace, err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.namespace}}
	_, err = namespaces.Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", i.namespace, err)
	}
	i.report(Event{Text: "namespace " + i.namespace + " created", Final: true})
	return nil
}

// manifests are the objects of a release.
func manifests(release helm.Release) ([]*unstructured.Unstructured, error) {
	objects := []*unstructured.Unstructured{}
	for document := range strings.SplitSeq(release.Manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("read release %s: %w", release.Name, err)
		}
		if object.Object != nil {
			objects = append(objects, object)
		}
	}
	return objects, nil
}
