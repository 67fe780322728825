package diagnosis

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"
)

// world is the facts of a test case, written as a manifest would be.
type world struct {
	Replicas   int32                          `json:"replicas"`
	Ready      int32                          `json:"ready"`
	Conditions []Condition                    `json:"conditions"`
	Pods       []corev1.Pod                   `json:"pods"`
	Events     []corev1.Event                 `json:"events"`
	Nodes      []corev1.Node                  `json:"nodes"`
	Others     []corev1.Pod                   `json:"others"` // pods that take room on nodes
	Claims     []corev1.PersistentVolumeClaim `json:"claims"`
	Classes    []storagev1.StorageClass       `json:"classes"`
	AllClasses bool                           `json:"allClasses"`
}

func facts(t *testing.T, text string) Facts {
	t.Helper()
	var w world
	if err := yaml.UnmarshalStrict([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if w.Replicas == 0 {
		w.Replicas = 1
	}
	for i := range w.Pods {
		if w.Pods[i].Name == "" {
			w.Pods[i].Name = podName
		}
	}
	return Facts{
		Workload: Workload{Namespace: "team", Name: "chat", Replicas: w.Replicas, Ready: w.Ready, Conditions: w.Conditions},
		Pods:     w.Pods, Events: w.Events, Nodes: NodesOf(w.Nodes, append(w.Others, w.Pods...)),
		Claims: w.Claims, Classes: w.Classes, ClassesKnown: w.AllClasses, Levers: LLMLevers("gpt-small"),
	}
}

const podName = "chat-6b7f9c4d5-x2x8k"

// node is a ready node's manifest with so many CPUs and GPUs.
func node(name, cpu, gpus string) string {
	return `{metadata: {name: ` + name + `}, status: {allocatable: {cpu: "` + cpu + `", memory: 8Gi, nvidia.com/gpu: "` + gpus + `"}, conditions: [{type: Ready, status: "True"}]}}`
}

// waiting is a pod on a node whose container waits.
func waiting(spec, reason, message string) string {
	return `pods: [{spec: {nodeName: n1, containers: [{name: model, image: "registry.example.com/gpt-small:v1"}]` + spec + `}, status: {phase: Pending, containerStatuses: [{name: model, state: {waiting: {reason: ` + reason + `, message: '` + message + `'}}}]}}]`
}

// pending is a pod that the scheduler can't place.
func pending(resources, spec, message string) string {
	return `pods: [{spec: {containers: [{name: model, image: "i:v1", resources: {requests: {` + resources + `}}}]` + spec + `}, status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: '` + message + `'}]}}]`
}

// crashed is a pod whose container waits after a crash.
func crashed(terminated string) string {
	return `pods: [{spec: {nodeName: n1, containers: [{name: model, image: "i:v1", resources: {limits: {memory: 4Gi}}, livenessProbe: {httpGet: {path: /health, port: http}}, startupProbe: {httpGet: {path: /v1/models, port: 8080}, failureThreshold: 20, periodSeconds: 1, timeoutSeconds: 5}, ports: [{name: http, containerPort: 8080}]}]}, status: {phase: Running, containerStatuses: [{name: model, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff, message: 'back-off 1m20s restarting failed container=model pod=` + podName + `_team(0c6a8a3e-6a3e-4d3f-9d1c-2f5b8f0f2b11)'}}, lastState: {terminated: {` + terminated + `}}}]}}]`
}

// running is a pod that runs and isn't ready, with an Unhealthy event.
func running(restarts, event string) string {
	return `{pods: [{spec: {nodeName: n1, containers: [{name: model, image: "i:v1", readinessProbe: {httpGet: {path: /v1/models, port: http}}, startupProbe: {httpGet: {path: /v1/models, port: http}}, ports: [{name: http, containerPort: 8080}]}]}, status: {phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{name: model, restartCount: ` + restarts + `, started: false, state: {running: {}}}]}}],
events: [{involvedObject: {kind: Pod, name: ` + podName + `, fieldPath: "spec.containers{model}"}, reason: Unhealthy, message: '` + event + `'}]}`
}

const (
	image401     = `failed to pull and unpack image "registry.example.com/gpt-small:v1": failed to resolve reference "registry.example.com/gpt-small:v1": pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`
	image404     = `Back-off pulling image "registry.example.com/gpt-small:v1": ErrImagePull: failed to pull and unpack image "registry.example.com/gpt-small:v1": failed to resolve reference "registry.example.com/gpt-small:v1": registry.example.com/gpt-small:v1: not found`
	imageNoHost  = `failed to pull and unpack image "registry.example.com/gpt-small:v1": failed to resolve reference "registry.example.com/gpt-small:v1": failed to do request: Head "https://registry.example.com/v2/gpt-small/manifests/v1": dial tcp: lookup registry.example.com on 10.96.0.10:53: no such host`
	imageToken   = `failed to pull and unpack image "registry.example.com/gpt-small:v1": failed to resolve reference "registry.example.com/gpt-small:v1": failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://registry.example.com/token: 401 Unauthorized`
	quotaSays    = `pods "chat-6b7f9c4d5-x2x8k" is forbidden: exceeded quota: team-quota, requested: limits.memory=4Gi,requests.cpu=2, used: limits.memory=4Gi,requests.cpu=3, limited: limits.memory=6Gi,requests.cpu=4`
	securitySays = `pods "chat-6b7f9c4d5-x2x8k" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "model" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container "model" must set securityContext.runAsNonRoot=true)`
)

func TestDiagnose(t *testing.T) {
	for _, test := range []struct {
		name, world, reason, message string
		next                         string
		passing                      bool // gets better without the user
	}{
		{name: "image denied", world: waiting("", "ErrImagePull", image401), reason: ReasonImageUnauthorized,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: access denied, or there is no such repository; correct spec.image of LLMModel gpt-small, or name a Secret with credentials for registry.example.com in spec.imagePullSecrets of LLMModel gpt-small",
			next:    "kubectl -n team describe deployment chat"},
		{name: "image unauthorized", world: waiting("", "ErrImagePull", imageToken), reason: ReasonImageUnauthorized,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: unauthorized; name a Secret with credentials for registry.example.com in spec.imagePullSecrets of LLMModel gpt-small"},
		{name: "image unauthorized with a secret", world: waiting(", imagePullSecrets: [{name: regcred}]", "ErrImagePull", imageToken), reason: ReasonImageUnauthorized,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: unauthorized; check the credentials for registry.example.com in Secret regcred"},
		{name: "image unauthorized with a missing secret", world: "{" + waiting(", imagePullSecrets: [{name: regcred}]", "ErrImagePull", imageToken) + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: FailedToRetrieveImagePullSecret, message: "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed."}]}`, reason: ReasonImageUnauthorized,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: unauthorized; create the missing pull Secret (spec.imagePullSecrets of LLMModel gpt-small names regcred)"},
		{name: "image not found", world: waiting("", "ImagePullBackOff", image404), reason: ReasonImageNotFound,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: not found; correct spec.image of LLMModel gpt-small"},
		{name: "image told by an event only", world: "{" + waiting("", "ImagePullBackOff", `Back-off pulling image "registry.example.com/gpt-small:v1"`) + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: Failed, message: 'Failed to pull image "registry.example.com/gpt-small:v1": rpc error: code = NotFound desc = failed to pull and unpack image "registry.example.com/gpt-small:v1": not found'}]}`, reason: ReasonImageNotFound,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: not found; correct spec.image of LLMModel gpt-small"},
		{name: "registry unknown", world: waiting("", "ErrImagePull", imageNoHost), reason: ReasonRegistryUnreachable, passing: true,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: its registry can't be reached; check that the nodes reach and trust registry.example.com, or change spec.image of LLMModel gpt-small"},
		{name: "image name", world: waiting("", "InvalidImageName", `Failed to apply default image tag "x": couldn't parse`[:44]), reason: ReasonInvalidImageName,
			message: `image "registry.example.com/gpt-small:v1" isn't a valid image name; correct spec.image of LLMModel gpt-small`},
		{name: "image never pulled", world: waiting("", "ErrImageNeverPull", `Container image "registry.example.com/gpt-small:v1" is not present with pull policy of Never`), reason: ReasonImageNotPresent,
			message: "image registry.example.com/gpt-small:v1 isn't on the node and its pull policy is Never; load it onto the nodes or change spec.image of LLMModel gpt-small"},
		{name: "image without a known cause", world: waiting("", "ErrImagePull", `failed to pull and unpack image "registry.example.com/gpt-small:v1": the moon is full`), reason: ReasonImagePullFailed, passing: true,
			message: "image registry.example.com/gpt-small:v1 can't be pulled: the moon is full; correct spec.image of LLMModel gpt-small"},

		{name: "too few GPUs", world: "{" + pending("nvidia.com/gpu: 4", "", "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.") + `,
nodes: [` + node("n1", "4", "4") + "," + node("n2", "4", "2") + "," + node("n3", "4", "0") + `], others: [{spec: {nodeName: n1, containers: [{name: a, resources: {requests: {nvidia.com/gpu: 2}}}]}}]}`, reason: ReasonInsufficientGPU,
			message: "0/3 nodes have 4 free nvidia.com/gpu (max free: 2; tainted: 1); lower spec.resources.gpu of LLMModel gpt-small or add nodes", next: "kubectl describe nodes"},
		{name: "GPUs without knowledge of nodes", world: pending("nvidia.com/gpu: 4", "", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."), reason: ReasonInsufficientGPU,
			message: "0/3 nodes have 4 free nvidia.com/gpu; lower spec.resources.gpu of LLMModel gpt-small or add nodes"},
		{name: "no GPUs at all", world: "{" + pending("nvidia.com/gpu: 1", "", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.") + ", nodes: [" + node("n1", "4", "0") + "]}", reason: ReasonInsufficientGPU,
			message: "no node offers nvidia.com/gpu; install its device plugin on the nodes that have the devices, add such nodes, or lower spec.resources.gpu of LLMModel gpt-small"},
		{name: "no node large enough", world: "{" + pending("cpu: 16", "", "0/1 nodes are available: 1 Insufficient cpu.") + ", nodes: [" + node("n1", "4", "0") + "]}", reason: ReasonInsufficientResources,
			message: "0/1 nodes have 16 cpu (largest node: 4); lower spec.resources.cpu of LLMModel gpt-small or add larger nodes"},
		{name: "too little memory", world: "{" + pending("memory: 4Gi", "", "0/1 nodes are available: 1 Insufficient memory.") + ", nodes: [" + node("n1", "4", "0") + "], others: [{spec: {nodeName: n1, containers: [{name: a, resources: {requests: {memory: 6Gi}}}]}}]}", reason: ReasonInsufficientResources,
			message: "0/1 nodes have 4Gi free memory (max free: 2Gi); lower spec.resources.memory of LLMModel gpt-small or add nodes"},
		{name: "taints", world: "{" + pending("cpu: 1", "", "0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.") + `,
nodes: [{metadata: {name: n1}, spec: {taints: [{key: gpu, value: "true", effect: NoSchedule}, {key: known, effect: NoSchedule}]}, status: {conditions: [{type: Ready, status: "True"}]}}]}`, reason: ReasonUntoleratedTaints,
			message: "1/1 nodes have taints that the pods don't tolerate (gpu=true:NoSchedule, known:NoSchedule); add spec.tolerations, or remove the taints"},
		{name: "node selector", world: pending("cpu: 1", ", nodeSelector: {gpu: a100, zone: b}", "0/2 nodes are available: 2 node(s) didn''t match Pod''s node affinity/selector. preemption: 0/2 nodes are available."), reason: ReasonNoMatchingNode,
			message: "2/2 nodes don't match the pods' node selector gpu=a100,zone=b; label a node, or change spec.nodeSelector", next: "kubectl get nodes"},
		{name: "no node ready", world: "{" + pending("cpu: 1", "", "0/1 nodes are available: 1 node(s) had untolerated taint(s).") + `,
nodes: [{metadata: {name: n1}, status: {conditions: [{type: Ready, status: Unknown}]}}]}`, reason: ReasonNoNodesReady, passing: true,
			message: "0/1 nodes are ready; start them, or see why they aren't with kubectl describe nodes"},
		{name: "no nodes", world: pending("cpu: 1", "", "no nodes available to schedule pods"), reason: ReasonNoNodesReady, passing: true, message: "the cluster has no nodes; add one"},
		{name: "cordoned", world: pending("cpu: 1", "", "0/2 nodes are available: 2 node(s) were unschedulable."), reason: ReasonNoNodesReady, passing: true,
			message: "the nodes that would fit are cordoned; kubectl uncordon one"},
		{name: "too many pods", world: pending("cpu: 1", "", "0/2 nodes are available: 2 Too many pods."), reason: ReasonInsufficientResources,
			message: "2/2 nodes run as many pods as they may; add nodes, or lower spec.replicas"},

		{name: "crash", world: crashed("exitCode: 1, reason: Error, message: \"loading weights\\n2026-11-20T16:00:01Z ValueError: unknown architecture\\n\""), reason: ReasonCrashLoop,
			message: "container model keeps failing with exit code 1: ValueError: unknown architecture", next: "kubectl -n team logs deployment/chat -c model --previous"},
		{name: "crash without words", world: crashed("exitCode: 3, reason: Error"), reason: ReasonCrashLoop, message: "container model keeps failing with exit code 3; its log says why"},
		{name: "segmentation fault", world: crashed("exitCode: 139, reason: Error"), reason: ReasonCrashLoop, message: "container model keeps ending with SIGSEGV (exit code 139); its log says why"},
		{name: "killed", world: crashed("exitCode: 137, reason: Error"), reason: ReasonCrashLoop,
			message: "container model keeps ending with SIGKILL (exit code 137); something killed it: the kernel for lack of memory (raise spec.resources.memory of LLMModel gpt-small), or a probe"},
		{name: "ends by itself", world: crashed("exitCode: 0, reason: Completed"), reason: ReasonCrashLoop,
			message: "container model ended by itself (exit code 0), but a server must keep running; correct spec.command of LLMModel gpt-small or spec.image of LLMModel gpt-small"},
		{name: "read-only file system", world: crashed(`exitCode: 1, reason: Error, message: "OSError: [Errno 30] Read-only file system: '/app/x'"`), reason: ReasonCrashLoop,
			message: "container model keeps failing with exit code 1: OSError: [Errno 30] Read-only file system: '/app/x'; it writes to its own file system, which is read-only; let it write under /cache or /tmp, or set spec.podSecurity: Baseline in LLMModel gpt-small"},
		{name: "secret in the last words", world: crashed(`exitCode: 1, reason: Error, message: "login failed: token=hf_abcdefghijklmnop"`), reason: ReasonCrashLoop,
			message: "container model keeps failing with exit code 1: login failed: token=***"},
		{name: "out of memory", world: crashed("exitCode: 137, reason: OOMKilled"), reason: ReasonOutOfMemory,
			message: "container model was killed because it needed more than its memory limit of 4Gi; raise spec.resources.memory of LLMModel gpt-small"},
		{name: "no such command", world: crashed(`exitCode: 128, reason: StartError, message: 'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "serve": executable file not found in $PATH: unknown'`), reason: ReasonCannotStart,
			message: `container model can't be started: exec: "serve": executable file not found in $PATH; correct spec.command of LLMModel gpt-small or spec.image of LLMModel gpt-small`},
		{name: "killed by a probe", world: "{" + crashed("exitCode: 137, reason: Error") + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: Killing, message: "Container model failed liveness probe, will be restarted"}, {involvedObject: {kind: Pod, name: ` + podName + `}, reason: Unhealthy, message: "Liveness probe failed: HTTP probe failed with statuscode: 500"}]}`, reason: ReasonProbeFailed,
			message: "container model is restarted again and again because it doesn't answer at :8080/health (HTTP 500); spec.port must be what the engine listens on"},
		{name: "killed by its startup probe", world: "{" + crashed("exitCode: 143, reason: Error") + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: Killing, message: "Container model failed startup probe, will be restarted"}]}`, reason: ReasonProbeFailed,
			message: "container model is restarted again and again because it doesn't answer at :8080/v1/models; spec.port must be what the engine listens on, and loading may need a longer spec.startupTimeoutSeconds of LLMModel gpt-small"},

		{name: "killed by its startup probe, by how long it lived", world: crashed(`exitCode: 0, reason: Completed, startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:23Z"`), reason: ReasonProbeFailed,
			message: "container model is restarted again and again because it doesn't answer at :8080/v1/models; spec.port must be what the engine listens on, and loading may need a longer spec.startupTimeoutSeconds of LLMModel gpt-small"},
		{name: "ends by itself, sooner", world: crashed(`exitCode: 0, reason: Completed, startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:05Z"`), reason: ReasonCrashLoop,
			message: "container model ended by itself (exit code 0), but a server must keep running; correct spec.command of LLMModel gpt-small or spec.image of LLMModel gpt-small"},
		{name: "ends by itself, later", world: crashed(`exitCode: 143, reason: Error, startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T01:00:00Z"`), reason: ReasonCrashLoop,
			message: "container model keeps ending with SIGTERM (exit code 143); its log says why"},

		{name: "loading", world: running("0", `Startup probe failed: Get "http://10.244.1.7:8080/v1/models": dial tcp 10.244.1.7:8080: connect: connection refused`), reason: ReasonNotAnswering, passing: true,
			message: "container model doesn't answer at :8080/v1/models yet (connection refused): it is still loading, or listens elsewhere; spec.port must be what the engine listens on"},
		{name: "not ready after a restart", world: running("1", `Readiness probe failed: Get "http://10.244.1.7:8080/v1/models": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`), reason: ReasonProbeFailed,
			message: "container model doesn't answer at :8080/v1/models (no answer in time); spec.port must be what the engine listens on"},
		{name: "wrong path", world: running("0", "Readiness probe failed: HTTP probe failed with statuscode: 404"), reason: ReasonProbeFailed,
			message: "container model answers HTTP 404 at :8080/v1/models, where it is probed; spec.engine of LLMModel gpt-small must fit the server that the image runs", next: "kubectl -n team logs deployment/chat -c model"},
		{name: "overloaded", world: running("0", "Readiness probe failed: HTTP probe failed with statuscode: 503"), reason: ReasonNotAnswering, passing: true,
			message: "container model answers HTTP 503 at :8080/v1/models: it is loading or overloaded"},
		{name: "runs", world: `pods: [{spec: {nodeName: n1, containers: [{name: model}]}, status: {phase: Running, containerStatuses: [{name: model, state: {running: {}}}]}}]`, reason: ReasonStarting, passing: true,
			message: "the pods run but aren't ready yet"},
		{name: "pulling", world: `{pods: [{spec: {nodeName: n1, containers: [{name: model}]}, status: {phase: Pending, containerStatuses: [{name: model, state: {waiting: {reason: ContainerCreating}}}]}}],
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: Pulling, message: 'Pulling image "i:v1"'}]}`, reason: ReasonStarting, passing: true, message: "images are being pulled"},

		{name: "missing secret", world: waiting("", "CreateContainerConfigError", `secret "hub-token" not found`), reason: ReasonMissingConfig,
			message: "Secret hub-token doesn't exist; create it, or correct spec.envFrom of LLMModel gpt-small"},
		{name: "missing key", world: waiting("", "CreateContainerConfigError", `couldn''t find key token in Secret team/hub-token`), reason: ReasonMissingConfig,
			message: "Secret hub-token has no key token; add it, or correct spec.envFrom of LLMModel gpt-small"},
		{name: "root image", world: waiting("", "CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "`+podName+`_team(0c6a8a3e-6a3e-4d3f-9d1c-2f5b8f0f2b11)", container: model)`), reason: ReasonRunsAsRoot,
			message: "image registry.example.com/gpt-small:v1 runs as root, which the pod doesn't allow; set spec.podSecurity: Baseline in LLMModel gpt-small, or use an image with a numeric non-root user"},
		{name: "named user", world: waiting("", "CreateContainerConfigError", `container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root (pod: "`+podName+`_team(0c6a8a3e)", container: model)`), reason: ReasonRunsAsRoot,
			message: "image registry.example.com/gpt-small:v1 runs as user nobody, which can't be told from root by its name; set spec.podSecurity: Baseline in LLMModel gpt-small, or use an image with a numeric non-root user"},
		{name: "missing config map in a volume", world: "{" + waiting("", "ContainerCreating", "") + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: FailedMount, message: 'MountVolume.SetUp failed for volume "config" : configmap "vllm-config" not found'}]}`, reason: ReasonMissingConfig,
			message: "ConfigMap vllm-config doesn't exist; create it, or correct spec.envFrom of LLMModel gpt-small"},
		{name: "volume attached elsewhere", world: "{" + waiting("", "ContainerCreating", "") + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: FailedAttachVolume, message: 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) chat-6b7f9c4d5-aaaaa'}]}`, reason: ReasonMountFailed, passing: true,
			message: "a volume is still attached to another node; it moves when the pod there has ended"},
		{name: "a mount that has passed", world: "{" + waiting("", "ContainerCreating", "") + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: FailedMount, lastTimestamp: "2026-01-01T00:00:00Z", message: 'MountVolume.SetUp failed for volume "c" : configmap "x" not found'},
{involvedObject: {kind: Pod, name: ` + podName + `}, reason: Pulling, lastTimestamp: "2026-01-01T00:00:01Z", message: 'Pulling image "i:v1"'}]}`, reason: ReasonStarting, passing: true, message: "images are being pulled"},
		{name: "a claim that isn't ours", world: pending("cpu: 1", ", volumes: [{name: w, persistentVolumeClaim: {claimName: weights}}]", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1 nodes are available."), reason: ReasonClaimPending, passing: true,
			message: "no node can have the pods' volumes (PersistentVolumeClaim weights); check that they are bound, and where their volumes are"},
		{name: "a slow node", world: waiting("", "CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition"), reason: ReasonContainerConfig, passing: true,
			message: "container model can't be created: failed to sync secret cache: timed out waiting for the condition"},
		{name: "no network", world: "{" + waiting("", "ContainerCreating", "") + `,
events: [{involvedObject: {kind: Pod, name: ` + podName + `}, reason: FailedCreatePodSandBox, message: 'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "f00dbeeff00dbeeff00dbeeff00dbeeff00dbeeff00dbeeff00dbeeff00dbeef": plugin type="bridge" failed (add): no IP addresses available'}]}`, reason: ReasonSandboxFailed, passing: true,
			message: `the node can't set up the pods: no network: "…": plugin type="bridge" failed (add): no IP addresses available`},

		{name: "missing storage class", world: "{" + pending("cpu: 1", ", volumes: [{name: w, persistentVolumeClaim: {claimName: chat-weights}}]", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.") + `,
claims: [{metadata: {name: chat-weights}, spec: {storageClassName: fast}, status: {phase: Pending}}], classes: [{metadata: {name: standard}}], allClasses: true}`, reason: ReasonMissingStorageClass,
			message: "StorageClass fast of PersistentVolumeClaim chat-weights doesn't exist (there is standard); create it, or change spec.storage of LLMModel gpt-small", next: "kubectl get storageclass"},
		{name: "missing storage class by event", world: "{" + pending("cpu: 1", ", volumes: [{name: w, persistentVolumeClaim: {claimName: chat-weights}}]", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.") + `,
claims: [{metadata: {name: chat-weights}, spec: {storageClassName: fast}, status: {phase: Pending}}], events: [{involvedObject: {kind: PersistentVolumeClaim, name: chat-weights}, reason: ProvisioningFailed, message: 'storageclass.storage.k8s.io "fast" not found'}]}`, reason: ReasonMissingStorageClass,
			message: "StorageClass fast of PersistentVolumeClaim chat-weights doesn't exist; create it, or change spec.storage of LLMModel gpt-small"},
		{name: "no default class", world: "{" + pending("cpu: 1", ", volumes: [{name: w, persistentVolumeClaim: {claimName: chat-weights}}]", "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.") + `,
claims: [{metadata: {name: chat-weights}, status: {phase: Pending}}], allClasses: true}`, reason: ReasonMissingStorageClass,
			message: "PersistentVolumeClaim chat-weights names no StorageClass and the cluster has no default one; name one in spec.storage of LLMModel gpt-small"},
		{name: "missing claim", world: pending("cpu: 1", ", volumes: [{name: w, persistentVolumeClaim: {claimName: weights}}]", `0/1 nodes are available: persistentvolumeclaim "weights" not found. preemption: 0/1 nodes are available.`), reason: ReasonClaimMissing,
			message: "PersistentVolumeClaim weights doesn't exist; create it, or change spec.storage of LLMModel gpt-small", next: "kubectl -n team get pvc"},
		{name: "claim that waits for its pod hides nothing", world: "{" + pending("cpu: 9", ", volumes: [{name: w, persistentVolumeClaim: {claimName: weights}}]", "0/1 nodes are available: 1 Insufficient cpu.") + `,
claims: [{metadata: {name: weights}, spec: {storageClassName: local}, status: {phase: Pending}}], classes: [{metadata: {name: local}, volumeBindingMode: WaitForFirstConsumer}], allClasses: true}`, reason: ReasonInsufficientResources,
			message: "0/1 nodes have 9 free cpu; lower spec.resources.cpu of LLMModel gpt-small or add nodes"},

		{name: "quota", world: `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: '` + quotaSays + `'}]`, reason: ReasonQuotaExceeded,
			message: "the namespace's quota team-quota is full: 6Gi limits.memory are allowed, 4Gi are used, a pod asks for 4Gi; 4 requests.cpu are allowed, 3 are used, a pod asks for 2; raise the quota, or lower spec.replicas or spec.resources.memory of LLMModel gpt-small or spec.resources.cpu of LLMModel gpt-small",
			next:    "kubectl -n team describe resourcequota team-quota"},
		{name: "quota that wants limits", world: `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "chat-6b7f9c4d5-x2x8k" is forbidden: failed quota: q: must specify limits.cpu for: model; requests.cpu for: model'}]`, reason: ReasonQuotaExceeded,
			message: "quota q wants every pod to say its limits.cpu for: model; requests.cpu for: model; set spec.resources.cpu of LLMModel gpt-small and spec.resources.memory of LLMModel gpt-small"},
		{name: "quota by event", world: `events: [{involvedObject: {kind: ReplicaSet, name: chat-6b7f9c4d5}, reason: FailedCreate, message: 'Error creating: ` + quotaSays + `'}]`, reason: ReasonQuotaExceeded,
			message: "the namespace's quota team-quota is full: 6Gi limits.memory are allowed, 4Gi are used, a pod asks for 4Gi; 4 requests.cpu are allowed, 3 are used, a pod asks for 2; raise the quota, or lower spec.replicas or spec.resources.memory of LLMModel gpt-small or spec.resources.cpu of LLMModel gpt-small"},
		{name: "pod security", world: `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: '` + securitySays + `'}]`, reason: ReasonPodSecurity,
			message: `the namespace allows only pods of Pod Security "restricted:latest", and these have: allowPrivilegeEscalation != false (container "model" must set securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or container "model" must set securityContext.runAsNonRoot=true); keep to that level, or label the namespace for a lower one`},
		{name: "limit range", world: `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "chat-6b7f9c4d5-x2x8k" is forbidden: maximum cpu usage per Container is 1, but limit is 2'}]`, reason: ReasonLimitRange,
			message: "the namespace's LimitRange turns the pods down: maximum cpu usage per Container is 1, but limit is 2; change spec.resources.cpu of LLMModel gpt-small or spec.resources.memory of LLMModel gpt-small"},
		{name: "service account", world: `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'pods "chat-6b7f9c4d5-" is forbidden: error looking up service account team/chat: serviceaccount "chat" not found'}]`, reason: ReasonPodsRejected,
			message: "the pods can't be created: ServiceAccount chat doesn't exist; create it"},
		{name: "webhook", world: `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: 'admission webhook "policy.example.com" denied the request: images must be signed'}]`, reason: ReasonPodsRejected,
			message: "admission webhook policy.example.com refuses the pods: images must be signed"},

		{name: "evicted", world: `pods: [{spec: {nodeName: n1}, status: {phase: Failed, reason: Evicted, message: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. Container model was using 5Gi, request is 4Gi, has larger consumption of memory. "}}]`, reason: ReasonEvicted, passing: true,
			message: "pods were evicted because their node ran low on memory; set spec.resources.memory of LLMModel gpt-small to what the model needs, or add nodes"},
		{name: "evicted for its volume", world: `pods: [{spec: {nodeName: n1}, status: {phase: Failed, reason: Evicted, message: 'Usage of EmptyDir volume "cache" exceeds the limit "1Gi". '}}]`, reason: ReasonEvicted, passing: true,
			message: "pods were evicted because volume cache outgrew its limit of 1Gi; enlarge spec.storage of LLMModel gpt-small"},
		{name: "node lost", world: `{pods: [{spec: {nodeName: n1, containers: [{name: model}]}, status: {phase: Running, conditions: [{type: Ready, status: "False"}]}}], nodes: [{metadata: {name: n1}, status: {conditions: [{type: Ready, status: Unknown}]}}]}`, reason: ReasonNodeLost, passing: true,
			message: "node n1 doesn't answer, so the pods on it don't serve; start it again, or delete it (kubectl delete node n1) so that they move at once", next: "kubectl describe node n1"},
		{name: "deadline", world: `{conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: 'ReplicaSet "chat-6b7f9c4d5" has timed out progressing.'}]}`, reason: ReasonDeadlineExceeded, passing: true,
			message: "only 0 of 1 replicas got ready in the time allowed for a rollout"},
		{name: "nothing yet", world: `{}`, reason: ReasonProgressing, passing: true, message: "0 of 1 replicas are ready"},

		{name: "the most actionable first", world: `{pods: [
{metadata: {name: chat-a}, spec: {containers: [{name: model}]}, status: {phase: Pending}},
{metadata: {name: chat-b}, spec: {nodeName: n1, containers: [{name: model, image: "i:v1"}]}, status: {containerStatuses: [{name: model, state: {waiting: {reason: InvalidImageName}}}]}},
{metadata: {name: chat-c}, spec: {containers: [{name: model}]}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: no nodes available to schedule pods}]}}]}`, reason: ReasonInvalidImageName,
			message: `image "i:v1" isn't a valid image name; correct spec.image of LLMModel gpt-small`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, found := Diagnose(facts(t, test.world))
			if !found {
				t.Fatal("no fault was found")
			}
			want := Finding{Reason: test.reason, Message: test.message, Terminal: !test.passing, Next: test.next, Pod: got.Pod}
			if test.next == "" {
				want.Next = got.Next
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if got.Next == "" {
				t.Error("no next command")
			}
		})
	}
}

func TestNoFaultWhereAllIsWell(t *testing.T) {
	for _, world := range []string{
		`{replicas: 1, ready: 1}`,
		`{ready: 1, pods: [{status: {phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{name: model, restartCount: 3, ready: true, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}]}`,
		`{ready: 1, pods: [{status: {phase: Succeeded}}]}`,
	} {
		if got, found := Diagnose(facts(t, world)); found {
			t.Errorf("%s: found %+v", world, got)
		}
	}
}
