package status

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Details are what a wide view adds to an object. What doesn't apply to its kind
// is empty.
type Details struct {
	// Ready of wanted: replicas of a workload, containers of a pod, as "1/2".
	Ready string `json:"ready,omitempty"`
	// Restarts of a pod's containers.
	Restarts *int64       `json:"restarts,omitempty"`
	Created  *metav1.Time `json:"created,omitempty"`
	// Node that a pod runs on.
	Node string `json:"node,omitempty"`
	// Image of the first container, with the number of further images.
	Image string `json:"image,omitempty"`
	// URL or address at which the object is reached inside the cluster.
	URL string `json:"url,omitempty"`
}

// detailsOf reads an object's details. It goes by the fields that Kubernetes'
// conventions give their names, so that a new kind needs nothing here.
func detailsOf(live *unstructured.Unstructured) Details {
	if live == nil {
		return Details{}
	}
	details := Details{Ready: replicas(live), Image: image(live), URL: text(live, "status", "url")}
	if created := live.GetCreationTimestamp(); !created.IsZero() {
		details.Created = &created
	}
	if live.GetAPIVersion() != "v1" {
		return details
	}
	switch live.GetKind() {
	case "Pod":
		details.Node = text(live, "spec", "nodeName")
		details.Ready, details.Restarts = containers(live)
	case "Service":
		details.URL = address(live)
	}
	return details
}

// replicas counts the ready ones of those that a workload is asked for.
func replicas(live *unstructured.Unstructured) string {
	for _, each := range []struct{ wanted, ready []string }{
		{[]string{"spec", "replicas"}, []string{"status", "readyReplicas"}},
		{[]string{"status", "desiredNumberScheduled"}, []string{"status", "numberReady"}},
		{[]string{"spec", "completions"}, []string{"status", "succeeded"}},
	} {
		if wanted, found, err := unstructured.NestedInt64(live.Object, each.wanted...); found && err == nil {
			ready, _, _ := unstructured.NestedInt64(live.Object, each.ready...)
			return fmt.Sprintf("%d/%d", ready, wanted)
		}
	}
	return ""
}

// containers counts a pod's ready containers, and how often they were restarted.
// The latter is unknown until a kubelet has seen the pod.
func containers(pod *unstructured.Unstructured) (ready string, restarts *int64) {
	wanted := list(pod, "spec", "containers")
	up := 0
	for _, each := range list(pod, "status", "containerStatuses") {
		fields, _ := each.(map[string]any)
		if is, _ := fields["ready"].(bool); is {
			up++
		}
		count, _ := fields["restartCount"].(int64)
		if restarts == nil {
			restarts = new(int64)
		}
		*restarts += count
	}
	return fmt.Sprintf("%d/%d", up, len(wanted)), restarts
}

// image is the image of a model, a pod or a workload.
func image(live *unstructured.Unstructured) string {
	if single := text(live, "spec", "image"); single != "" {
		return single
	}
	all := list(live, "spec", "containers")
	if len(all) == 0 {
		all = list(live, "spec", "template", "spec", "containers")
	}
	if len(all) == 0 {
		return ""
	}
	first, _ := all[0].(map[string]any)
	name, _ := first["image"].(string)
	if more := len(all) - 1; more > 0 {
		name += fmt.Sprintf(" +%d", more)
	}
	return name
}

// address is where a Service is reached; a headless one has none.
func address(service *unstructured.Unstructured) string {
	at := text(service, "spec", "clusterIP")
	ports := list(service, "spec", "ports")
	if at == "" || at == "None" || len(ports) == 0 {
		return ""
	}
	if strings.Contains(at, ":") {
		at = "[" + at + "]"
	}
	first, _ := ports[0].(map[string]any)
	port, _ := first["port"].(int64)
	return fmt.Sprintf("%s:%d", at, port)
}

func text(live *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(live.Object, path...)
	return value
}

func list(live *unstructured.Unstructured, path ...string) []any {
	value, _, _ := unstructured.NestedFieldNoCopy(live.Object, path...)
	all, _ := value.([]any)
	return all
}

// wide makes a table with the columns of the details between the others, if a
// style asks for them.
func wide(style Style, first []column, last ...column) table {
	if !style.Wide {
		return table{columns: append(first, last...)}
	}
	columns := append(first, column{"READY", 0, head}, column{"RESTARTS", 0, head}, column{"AGE", 0, head},
		column{"NODE", leastNode, tail}, column{"IMAGE OR URL", leastImage, tail})
	return table{columns: append(columns, last...), limit: style.Width}
}

// details are the cells of the columns that wide adds.
func (s Style) details(node *Node) []string {
	if !s.Wide {
		return nil
	}
	details, restarts, age := node.Details, "", ""
	if details.Restarts != nil {
		restarts = strconv.FormatInt(*details.Restarts, 10)
	}
	if details.Created != nil && !s.Now.IsZero() {
		age = duration.HumanDuration(s.Now.Sub(details.Created.Time))
	}
	return []string{details.Ready, restarts, age, details.Node, cmp.Or(details.URL, details.Image)}
}
