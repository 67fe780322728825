package simulatordeployment

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// reasonServicePort is the reason of a part whose Service leads elsewhere.
const reasonServicePort = "ServicePortChanged"

// mislead finds the parts whose Services are there with other ports than they
// were written with. What someone changes is written back, so that only a Service
// is found here that is changed as it is written, or that can't be.
func mislead(facts *facts, result apply.Result) findings {
	found := findings{}
	for _, wanted := range facts.wanted {
		if wanted.GetKind() != "Service" {
			continue
		}
		live := serviceIn(result, wanted.GetName())
		component := simulatordeployment.Component(wanted.GetLabels()[object.LabelComponent])
		if _, known := found[component]; known || live == nil {
			continue
		}
		if message := otherPorts(wanted, live); message != "" {
			found[component] = diagnosis.Finding{Reason: reasonServicePort, Message: message}
		}
	}
	return found
}

func serviceIn(result apply.Result, name string) *unstructured.Unstructured {
	for _, live := range result.Live {
		if live.GetKind() == "Service" && live.GetName() == name {
			return live
		}
	}
	return nil
}

// otherPorts tells of the first port that leads elsewhere. Ports that someone
// added are no matter.
func otherPorts(wanted, live *unstructured.Unstructured) string {
	there := portsOf(live)
	for _, each := range portsOf(wanted) {
		if slices.Contains(there, each) {
			continue
		}
		found := "has no port " + each.name
		if at := slices.IndexFunc(there, func(p servicePort) bool { return p.name == each.name }); at >= 0 {
			found = "leads from port " + there[at].String()
		}
		return fmt.Sprintf("Service %s %s, and was written to lead from port %s; "+
			"find what changes it, such as a webhook, stop that, and delete the Service: it is made anew", live.GetName(), found, each)
	}
	return ""
}

type servicePort struct{ name, port, target string }

func (p servicePort) String() string { return p.port + " to port " + p.target + " of the pods" }

func portsOf(service *unstructured.Unstructured) []servicePort {
	list, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	var ports []servicePort
	for _, each := range list {
		if fields, is := each.(map[string]any); is {
			ports = append(ports, servicePort{fmt.Sprint(fields["name"]), fmt.Sprint(fields["port"]), fmt.Sprint(fields["targetPort"])})
		}
	}
	return ports
}
