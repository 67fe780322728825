package simulatordeployment

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	simv1alpha1 "github.com/slipway-dev/slipway/api/sim/v1alpha1"
	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/diagnosis"
	"github.com/slipway-dev/slipway/internal/render/simulatordeployment"
)

// Reasons of the kind's own.
const (
	reasonServing         = "Serving"
	reasonScaledToZero    = "ScaledToZero"
	reasonNoDecodeStage   = "NoDecodeStage"
	reasonPickerForbidden = "PickerForbidden"
)

// findings say what keeps a part from serving.
type findings = map[simulatordeployment.Component]diagnosis.Finding

// report says what is live: counts, URLs, a condition for each part, and the
// summary. It is a pure function; the same world gives the same status.
func report(facts *facts, result apply.Result, outcome condition.Outcome, found findings, now metav1.Time) simv1alpha1.SimulatorDeploymentStatus {
	deployment := facts.deployment
	status := *deployment.Status.DeepCopy()
	status.ObservedGeneration = deployment.Generation
	status.Endpoints = simulatordeployment.Endpoints(deployment)
	status.GatewayURL = gatewayURL(facts, result)
	status.Selector = labels.SelectorFromSet(simulatordeployment.ScaleSelector(deployment)).String()
	parts := partsOf(facts, result, found)
	if len(result.Live) > 0 || outcome.Verdict == condition.Done {
		count(&status, parts)
		setConditions(&status.Conditions, facts, result, parts, now)
	}
	if outcome.Verdict == condition.Done {
		outcome = summary(facts, status.Conditions, parts)
		outcome.Left = left(facts)
	}
	condition.Report(&status.Conditions, outcome, deployment.Generation, now)
	return status
}

// starting is the status of a new resource, before anything was made for it.
func starting(facts *facts, now metav1.Time) simv1alpha1.SimulatorDeploymentStatus {
	return report(facts, apply.Result{}, condition.Outcome{Verdict: condition.Done}, nil, now)
}

// part is one Deployment as it is.
type part struct {
	simulatordeployment.Part
	workload *unstructured.Unstructured // nil: not there
	finding  *diagnosis.Finding
	misled   bool // its Service leads elsewhere, and finding says so
}

func partsOf(facts *facts, result apply.Result, found findings) []part {
	var parts []part
	misled := mislead(facts, result)
	for _, each := range simulatordeployment.Parts(facts.deployment) {
		made := part{Part: each, workload: workloadOf(result, each.Name)}
		if finding, is := found[each.Component]; is {
			made.finding = &finding
		} else if finding, is := misled[each.Component]; is {
			made.finding, made.misled = &finding, true
		}
		parts = append(parts, made)
	}
	return parts
}

func (p part) serves() bool { return p.workload != nil && isServing(p.workload) && !p.misled }

func (p part) counted(field string) int32 {
	if p.workload == nil {
		return 0
	}
	n, _, _ := unstructured.NestedInt64(p.workload.Object, "status", field)
	return int32(n) //nolint:gosec // the API's own int32
}

// fraction is "2/2": how many are ready of those that are wanted.
func (p part) fraction() string { return fmt.Sprintf("%d/%d", p.counted("readyReplicas"), p.Replicas) }

func count(status *simv1alpha1.SimulatorDeploymentStatus, parts []part) {
	status.Replicas, status.ReadyReplicas = 0, 0
	status.EPP, status.StandardGateway, status.IstioGateway, status.Prefill, status.Decode = nil, nil, nil, nil, nil
	for _, each := range parts {
		counted := &simv1alpha1.PartStatus{
			Name: each.Name, Replicas: each.counted("replicas"), ReadyReplicas: each.counted("readyReplicas"),
		}
		status.Replicas += counted.Replicas
		status.ReadyReplicas += counted.ReadyReplicas
		switch each.Component {
		case simulatordeployment.Prefill:
			status.Prefill = counted
		case simulatordeployment.Decode:
			status.Decode = counted
		case simulatordeployment.Picker:
			status.EPP = counted
		case simulatordeployment.StandardGateway:
			status.StandardGateway = counted
		case simulatordeployment.IstioGateway:
			status.IstioGateway = counted
		}
	}
}

// summary is the outcome of the whole: the first part that doesn't serve, in the
// order of parts, and a fault before what is only under way.
func summary(facts *facts, conditions []metav1.Condition, parts []part) condition.Outcome {
	var waits *part
	for i := range parts {
		each := &parts[i]
		if each.serves() {
			continue
		}
		if each.finding != nil && !isProgress(*each.finding) {
			verdict := condition.Waiting
			if each.finding.Terminal {
				verdict = condition.Stopped
			}
			return condition.Outcome{Verdict: verdict, Reason: each.finding.Reason,
				Message: simulatordeployment.Title(each.Component) + ": " + each.finding.Message}
		}
		if waits == nil {
			waits = each
		}
	}
	if waits != nil {
		return condition.Outcome{Verdict: condition.Waiting, Reason: condition.ReasonProgressing,
			Message: "waiting for " + joined(unready(parts)) + " to become ready"}
	}
	if blind(facts.deployment) {
		return condition.Outcome{Verdict: condition.Stopped, Reason: reasonNoDecodeStage, Message: noDecode}
	}
	return condition.Outcome{Verdict: condition.Done, Reason: doneReason(parts),
		Message: fractions(parts) + " ready" + withheld(conditions)}
}

func doneReason(parts []part) string {
	for _, each := range parts {
		if each.Component == simulatordeployment.Decode && each.Replicas == 0 {
			return reasonScaledToZero
		}
	}
	return reasonServing
}

func fractions(parts []part) string {
	var texts []string
	for _, each := range parts {
		texts = append(texts, simulatordeployment.Title(each.Component)+" "+each.fraction())
	}
	return strings.Join(texts, ", ")
}

func unready(parts []part) []string {
	var names []string
	for _, each := range parts {
		if !each.serves() {
			names = append(names, simulatordeployment.Title(each.Component))
		}
	}
	return names
}

// joined is "a, b and c".
func joined(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// withheld names the optional conditions that are false, so that who reads only
// the summary learns of them.
func withheld(conditions []metav1.Condition) string {
	for _, kind := range []string{simv1alpha1.ConditionLoadBalancingReady, simv1alpha1.ConditionGatewayProgrammed} {
		if c := condition.Find(conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			return "; " + c.Message
		}
	}
	return ""
}
