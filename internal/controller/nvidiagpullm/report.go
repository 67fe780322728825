package nvidiagpullm

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/infra/v1"
	"github.com/slipway-dev/slipway/internal/condition"
	"github.com/slipway-dev/slipway/internal/render/nvidiagpullm"
)

// Reasons of the kind's own.
const (
	reasonServing       = "Serving"
	reasonCompleted     = "Completed"
	reasonUninstalled   = "Uninstalled"
	reasonNotInstalled  = "NotInstalled"
	reasonContested     = "Contested"
	reasonNoGPUs        = "InsufficientGPU"
	reasonPulling       = "Pulling"
	reasonLoading       = "Loading"
	reasonPrompting     = "Prompting"
	reasonFinishing     = "Finishing"
	reasonStarting      = "Starting"
	reasonModelNotFound = "ModelNotFound"
	reasonNoMemory      = "NoMemory"
	reasonRefused       = "ModelRefused"
	reasonNoSpace       = "NoSpace"
	reasonServerGone    = "ServerUnreachable"
	reasonServerFailed  = "ServerFailed"
	reasonPullFailed    = "PullFailed"
	reasonCannotExpand  = "CannotExpand"
	reasonNotAllowed    = "NamespaceNotAllowed"
)

// isFinal tells the faults that only another spec mends.
func isFinal(reason string) bool {
	switch reason {
	case reasonModelNotFound, reasonNoMemory, reasonRefused:
		return true
	}
	return false
}

// report says what is: the phase, a sentence, what the pod and its server have,
// and the conditions. It is a pure function.
func report(f *facts, outcome condition.Outcome, now metav1.Time) infrav1.NvidiaGpuLlmStatus {
	status := *f.resource.Status.DeepCopy()
	generation := f.resource.Generation
	status.ObservedGeneration = generation
	status.PodName, status.ModelLoaded, status.GPUAssigned, status.GPUDevices = "", "", false, nil
	if f.pod != nil {
		status.PodName = f.pod.Name
		status.GPUAssigned, status.GPUDevices = gpusOf(f.pod, f.claimed)
	}
	status.ModelLoaded = loadedModel(f)
	installs := f.resource.Spec.Action == infrav1.ActionInstall && f.refused == nil
	status.URL, status.Answers, status.AnswersConfigMap = "", nil, ""
	if installs {
		status.URL = nvidiagpullm.URL(f.resource)
		if len(f.answers) > 0 {
			status.Answers = nvidiagpullm.Shown(f.resource, f.answers)
			status.AnswersConfigMap = nvidiagpullm.AnswersName(f.resource)
		}
		if f.finished {
			status.CompletedRun = nvidiagpullm.Run(f.resource)
		}
	}
	if outcome.Verdict == condition.Done {
		outcome = f.outcome()
	}
	conditions(&status.Conditions, f, now)
	condition.Report(&status.Conditions, outcome, generation, now)
	if ready := condition.Find(status.Conditions, condition.Ready); ready != nil {
		status.Message = ready.Message
	}
	status.Phase = phaseOf(f, status.Conditions)
	return status
}

// loadedModel is what the server says. Where there are several it is the one that
// we loaded before, for as long as that is there: so it is known which one is to
// go when another one has been loaded.
func loadedModel(f *facts) string {
	if before := f.resource.Status.ModelLoaded; slices.Contains(f.server.loaded, before) {
		return before
	}
	wanted := normal(nvidiagpullm.Model(f.resource))
	if f.resource.Spec.Action == infrav1.ActionInstall && slices.Contains(f.server.loaded, wanted) {
		return wanted
	}
	loaded := slices.DeleteFunc(slices.Clone(f.server.loaded), func(name string) bool { return name == nvidiagpullm.RunningAlias })
	slices.Sort(loaded)
	if len(loaded) == 0 {
		return ""
	}
	return loaded[0]
}

// outcome is how things stand where nothing failed.
func (f *facts) outcome() condition.Outcome {
	switch f.resource.Spec.Action {
	case infrav1.ActionStatus:
		return f.statusOutcome()
	case infrav1.ActionUninstall:
		return done(reasonUninstalled, "nothing of %s is left%s", f.resource.Spec.LLMName, f.keptClaim())
	}
	model := normal(nvidiagpullm.Model(f.resource))
	switch {
	case f.completed() || f.finished:
		return done(reasonCompleted, "%s", ran(f))
	case f.finding != nil:
		verdict := condition.Waiting
		if f.finding.Terminal {
			verdict = condition.Stopped
		}
		return condition.Outcome{Verdict: verdict, Reason: f.finding.Reason, Message: f.finding.Message}
	case f.job != nil:
		return f.working()
	case f.server.answers && slices.Contains(f.server.loaded, model) && isReady(f.pod):
		return done(reasonServing, "%s is loaded and answers in pod %s", model, f.resource.Spec.LLMName)
	default:
		return waiting(reasonStarting, "pod %s is starting", f.resource.Spec.LLMName)
	}
}

// working tells of the step under way. The sentence of a pull changes with each
// tenth of it.
func (f *facts) working() condition.Outcome {
	what := f.job.step
	switch what.kind {
	case stepPull:
		return waiting(reasonPulling, "model %s is being fetched: %d %%", what.model, f.job.percent/10*10)
	case stepPrompt:
		return waiting(reasonPrompting, "prompt %d of %d is being answered", len(f.answers)+1, len(f.resource.Spec.Prompts))
	case stepUnload:
		return waiting(reasonLoading, "model %s is loaded; %s is being dropped from memory", normal(nvidiagpullm.Model(f.resource)), what.model)
	case stepFinish:
		return waiting(reasonFinishing, "the prompts are answered; the pod is being ended")
	default:
		return waiting(reasonLoading, "model %s is being loaded", what.model)
	}
}

func (f *facts) statusOutcome() condition.Outcome {
	name, namespace := f.resource.Spec.LLMName, nvidiagpullm.Namespace(f.resource)
	switch {
	case f.pod == nil:
		return waiting(reasonNotInstalled, "there is no pod %s in namespace %s; apply a NvidiaGpuLlm with action install and that llmName", name, namespace)
	case isEnded(f.pod):
		return done(reasonCompleted, "pod %s has ended (%s)", name, f.pod.Status.Phase)
	case !f.server.answers:
		return waiting(reasonServerGone, "pod %s is %s, and no Ollama server answers in it on port %d", name, strings.ToLower(string(f.pod.Status.Phase)), nvidiagpullm.Port)
	case len(f.server.loaded) == 0:
		return done(reasonServing, "pod %s serves; no model is in memory, %s stored", name, count(len(f.server.stored)))
	default:
		return done(reasonServing, "pod %s serves %s", name, strings.Join(f.server.loaded, ", "))
	}
}

func count(models int) string {
	if models == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", models)
}

// ran tells what a pod that shall complete has done.
func ran(f *facts) string {
	where := "; the answers are in ConfigMap " + nvidiagpullm.AnswersName(f.resource)
	switch n := len(f.resource.Spec.Prompts); n {
	case 0:
		return "the model is there and no prompt was asked"
	case 1:
		return "the prompt has run" + where
	default:
		return fmt.Sprintf("all %d prompts have run%s", n, where)
	}
}

// keptClaim tells of a claim that outlives its pod.
func (f *facts) keptClaim() string {
	if f.resource.Spec.StorageRetentionPolicy == infrav1.RetentionDelete {
		return ""
	}
	return fmt.Sprintf("; a claim %s with models would be kept (spec.storageRetentionPolicy: Delete removes it)", nvidiagpullm.ClaimName(f.resource))
}

func done(reason, format string, args ...any) condition.Outcome {
	return condition.Outcome{Verdict: condition.Done, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func waiting(reason, format string, args ...any) condition.Outcome {
	return condition.Outcome{Verdict: condition.Waiting, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// conditions sets those of the kind's own; what doesn't apply has none.
func conditions(all *[]metav1.Condition, f *facts, now metav1.Time) {
	set := func(kind string, wanted, is bool, reason, message string) {
		if !wanted {
			condition.Remove(all, kind)
			return
		}
		status := metav1.ConditionFalse
		if is {
			status = metav1.ConditionTrue
		}
		condition.Set(all, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: f.resource.Generation,
		}, now)
	}
	installs := f.resource.Spec.Action == infrav1.ActionInstall && f.refused == nil
	lacking := condition.Classify(f.lackingGPUs())
	has := lacking.Verdict == condition.Done
	reason, message := reasonServing, "the GPUs that are asked for are there"
	if !has {
		reason, message = lacking.Reason, lacking.Message
	}
	set(infrav1.ConditionGPUAvailable, installs && nvidiagpullm.GPUs(f.resource) > 0, has, reason, message)

	pulls := f.job != nil && f.job.step.kind == stepPull
	message = ""
	if pulls {
		message = f.working().Message
	}
	set(infrav1.ConditionPulling, pulls, true, reasonPulling, message)

	model := normal(nvidiagpullm.Model(f.resource))
	loaded := slices.Contains(f.server.loaded, model)
	reason, message = reasonLoading, model+" is not in memory"
	if loaded {
		reason, message = reasonServing, model+" is in memory"
	}
	set(infrav1.ConditionModelLoaded, installs && !f.completed() && !f.finished, loaded, reason, message)

	answered, asked := len(f.answers), len(f.resource.Spec.Prompts)
	reason = reasonPrompting
	if answered == asked {
		reason = reasonCompleted
	}
	set(infrav1.ConditionPromptsDone, installs && asked > 0, answered == asked, reason, fmt.Sprintf("%d of %d prompts are answered", answered, asked))

	opposed := f.opposition()
	set(infrav1.ConditionContested, opposed != "", true, reasonContested, opposed)
}

// opposition says who wants the opposite for the same name.
func (f *facts) opposition() string {
	for _, other := range f.rivals {
		switch {
		case f.resource.Spec.Action == infrav1.ActionInstall && other.Spec.Action == infrav1.ActionUninstall:
			return fmt.Sprintf("NvidiaGpuLlm %s asks to uninstall %s, which this one installs; delete one of them", other.Name, f.resource.Spec.LLMName)
		case f.resource.Spec.Action == infrav1.ActionInstall && other.Spec.Action == infrav1.ActionInstall:
			return fmt.Sprintf("NvidiaGpuLlm %s installs %s too; the older one does it", other.Name, f.resource.Spec.LLMName)
		case f.resource.Spec.Action == infrav1.ActionUninstall && other.Spec.Action == infrav1.ActionInstall:
			return fmt.Sprintf("NvidiaGpuLlm %s installs %s, which this one asks to uninstall; delete one of them", other.Name, f.resource.Spec.LLMName)
		}
	}
	return ""
}

func phaseOf(f *facts, conditions []metav1.Condition) infrav1.Phase {
	switch {
	case condition.IsTrue(conditions, condition.Ready):
		return infrav1.PhaseReady
	case condition.IsTrue(conditions, condition.Stalled):
		return infrav1.PhaseFailed
	case f.resource.Spec.Action == infrav1.ActionInstall && f.pod != nil:
		return infrav1.PhaseInProgress
	case f.resource.Spec.Action == infrav1.ActionUninstall && !f.installedByOther():
		return infrav1.PhaseInProgress
	default:
		return infrav1.PhasePending
	}
}
