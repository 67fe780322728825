package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// containers collects the faults of a pod's containers, those that run before
// the others first.
func containers(facts Facts, pod *corev1.Pod) []candidate {
	var found []candidate
	each := func(specs []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range statuses {
			for _, spec := range specs {
				if spec.Name == statuses[i].Name {
					found = append(found, ofContainer(facts, pod, spec, &statuses[i])...)
				}
			}
		}
	}
	each(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	each(pod.Spec.Containers, pod.Status.ContainerStatuses)
	return found
}

func ofContainer(facts Facts, pod *corev1.Pod, spec corev1.Container, status *corev1.ContainerStatus) []candidate {
	if status.Ready {
		return nil
	}
	if waiting := status.State.Waiting; waiting != nil {
		if found := image(facts, pod, spec, waiting); found != nil {
			return found
		}
		if found := config(facts, pod, spec, waiting); found != nil {
			return found
		}
	}
	// A container that has started again after a crash still shows the crash, so
	// that the message stays while it goes on crashing.
	ended := status.State.Terminated
	if ended == nil && status.RestartCount > 0 {
		ended = status.LastTerminationState.Terminated
	}
	if ended == nil || ended.ExitCode == 0 && ended.Reason == "Completed" && isInit(pod, spec.Name) {
		return nil
	}
	return []candidate{crash(facts, pod, spec, ended)}
}

func isInit(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return true
		}
	}
	return false
}

// crash says why a container ended.
func crash(facts Facts, pod *corev1.Pod, spec corev1.Container, ended *corev1.ContainerStateTerminated) candidate {
	if ended.Reason == "OOMKilled" {
		return outOfMemory(facts, spec)
	}
	if code := ended.ExitCode; code == 0 || code == 137 || code == 143 {
		if killed, is := killedByProbe(facts, pod, spec, ended); is {
			return killed
		}
	}
	words := lastLine(ended.Message)
	reason, fault, wayOut := ReasonCrashLoop, exitFault(ended), facts.hint(words, ended)
	switch ended.Reason {
	case "StartError", "ContainerCannotRun":
		reason, fault = ReasonCannotStart, "can't be started"
		words = runtimeFault(ended.Message)
	}
	message := fmt.Sprintf("container %s %s", spec.Name, fault)
	if said := facts.quote(words); said != "" {
		message += ": " + said
	}
	if wayOut != "" {
		message += "; " + wayOut
	}
	return candidate{Finding{
		Reason: reason, Message: message, Next: facts.logs(spec.Name, true), Terminal: true,
	}, rankContainer}
}

func outOfMemory(facts Facts, spec corev1.Container) candidate {
	limit := "what the node has left"
	if memory, is := spec.Resources.Limits[corev1.ResourceMemory]; is {
		limit = "its memory limit of " + memory.String()
	}
	return candidate{Finding{
		Reason:   ReasonOutOfMemory,
		Message:  fmt.Sprintf("container %s was killed because it needed more than %s; raise %s", spec.Name, limit, facts.Levers.Memory),
		Next:     facts.logs(spec.Name, true),
		Terminal: true,
	}, rankContainer}
}

// signals names those that end processes, by signal(7).
var signals = map[int32]string{
	1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
	9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM", 31: "SIGSYS",
}

// exitFault says in words how a container ended. Codes above 128 are a signal's
// number plus 128, by the shell's convention, which container runtimes keep.
func exitFault(ended *corev1.ContainerStateTerminated) string {
	code := ended.ExitCode
	signal := ended.Signal
	if signal == 0 && code > 128 && code < 160 {
		signal = code - 128
	}
	switch {
	case code == 0:
		return "ended by itself (exit code 0), but a server must keep running"
	case code == 126:
		return "can't run its command: not executable (exit code 126)"
	case code == 127:
		return "can't run its command: not found in the image (exit code 127)"
	case signals[signal] != "":
		return fmt.Sprintf("keeps ending with %s (exit code %d)", signals[signal], code)
	default:
		return fmt.Sprintf("keeps failing with exit code %d", code)
	}
}

// hints know what a container's last words mean. Each gives the way out.
var hints = []struct {
	patterns []string
	wayOut   func(Levers) string
}{
	{
		[]string{"read-only file system", "erofs"},
		func(l Levers) string {
			return "it writes to its own file system, which is read-only; let it write under /cache or /tmp, or " + l.PodSecurity
		},
	},
	{
		[]string{"address already in use"},
		func(l Levers) string { return "another process in the pod listens on its port; change " + l.Port },
	},
	{
		[]string{"bind: permission denied", "bind() to", "permission denied (os error 13)"},
		func(l Levers) string {
			return "only root may listen on ports below 1024; raise " + l.Port + ", or " + l.PodSecurity
		},
	},
	{
		[]string{"permission denied", "eacces", "operation not permitted"},
		func(l Levers) string { return "it runs without root's rights; " + l.PodSecurity + " if it needs them" },
	},
	{
		[]string{"exec format error"},
		func(l Levers) string {
			return "the image is built for another CPU architecture; change " + l.Image
		},
	},
	{
		[]string{"cuda out of memory", "outofmemoryerror", "no available memory for the cache blocks", "free memory on device"},
		func(l Levers) string { return "the GPU's memory is too small for the model; raise " + l.GPU },
	},
	{
		[]string{"no nvidia driver", "no cuda-capable device", "libcuda.so", "failed to infer device type", "no cuda gpus are available", "nvml"},
		func(l Levers) string { return "it needs a GPU; set " + l.GPU },
	},
	{
		[]string{"no such file or directory", "executable file not found", "command not found"},
		func(l Levers) string { return "correct " + l.Command + " or " + l.Image },
	},
	{
		[]string{"unrecognized arguments", "unknown flag", "flag provided but not defined", "invalid option", "unknown option"},
		func(l Levers) string {
			return "the image doesn't know an argument; correct its arguments or " + l.Engine
		},
	},
	{
		[]string{"401 client error", "403 client error", "gatedrepo", "gated repo", "invalid username or password"},
		func(l Levers) string {
			return "the model's source refuses the download; put its token into a Secret named in " + l.Configuration
		},
	},
	{
		[]string{"no space left on device", "disk quota exceeded"},
		func(l Levers) string { return "its volume is full; enlarge " + l.Storage },
	},
}

// hint is the way out that a container's end suggests.
func (f Facts) hint(words string, ended *corev1.ContainerStateTerminated) string {
	said := strings.ToLower(ended.Message)
	for _, each := range hints {
		for _, pattern := range each.patterns {
			if strings.Contains(said, pattern) {
				return each.wayOut(f.Levers)
			}
		}
	}
	switch ended.ExitCode {
	case 0, 126, 127:
		return "correct " + f.Levers.Command + " or " + f.Levers.Image
	case 132:
		return "the image uses instructions that the node's CPU lacks; change " + f.Levers.Image
	case 137:
		return "something killed it: the kernel for lack of memory (raise " + f.Levers.Memory + "), or a probe"
	}
	if words == "" {
		return "its log says why"
	}
	return ""
}

// runtimeFault is the last part of what runc says, which names the fault; what
// stands before it is the path through the layers.
func runtimeFault(message string) string {
	message = strings.TrimSuffix(strings.TrimSpace(message), ": unknown")
	for _, marker := range []string{"unable to start container process: ", "runc create failed: ", "OCI runtime create failed: ", "failed to create shim task: ", "failed to create containerd task: "} {
		if _, after, found := strings.Cut(message, marker); found {
			return strings.TrimPrefix(after, "error during container init: ")
		}
	}
	return message
}
