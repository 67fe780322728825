package integration

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/apply"
	"github.com/slipway-dev/slipway/internal/object"
	"github.com/slipway-dev/slipway/test/bed"
)

// TestDriftIsPutBack has a row for each way in which someone changes what is
// ours; the next pass, by the same engine, puts it back.
func TestDriftIsPutBack(t *testing.T) {
	for name, meddle := range map[string]func(s *stand, d *appsv1.Deployment){
		"a changed field": func(s *stand, d *appsv1.Deployment) {
			s.change(d, func() { d.Spec.Template.Spec.Containers[0].Image = "evil:v1" })
		},
		"a changed element of a list": func(s *stand, d *appsv1.Deployment) {
			s.change(d, func() { d.Spec.Template.Spec.Containers[0].Env[1].Value = "3" })
		},
		"a removed element of a list": func(s *stand, d *appsv1.Deployment) {
			s.change(d, func() { d.Spec.Template.Spec.Containers[0].Env = nil })
		},
		"a removed label": func(s *stand, d *appsv1.Deployment) {
			s.change(d, func() { delete(d.Labels, object.LabelManagedBy) })
		},
		"a removed owner reference": func(s *stand, d *appsv1.Deployment) {
			s.change(d, func() { d.OwnerReferences = nil })
		},
		"replicas": func(s *stand, d *appsv1.Deployment) {
			s.change(d, func() { d.Spec.Replicas = new(int32(7)) })
		},
		"a taken field": func(s *stand, d *appsv1.Deployment) {
			taken := bed.Want(t, bed.Deployment(s.namespace, "chat", "evil:v1", 2))[0]
			err := s.others.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(taken),
				client.FieldOwner("thief"), client.ForceOwnership)
			if err != nil {
				s.Fatal(err)
			}
		},
		"a deletion": func(s *stand, d *appsv1.Deployment) {
			if err := s.others.Delete(s.Context(), d); err != nil {
				s.Fatal(err)
			}
		},
		"a deletion, and another of that name from a backup": func(s *stand, d *appsv1.Deployment) {
			if err := s.others.Delete(s.Context(), d); err != nil {
				s.Fatal(err)
			}
			s.create(bed.Deployment(s.namespace, "chat", "old:v1", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			wanted := bed.Deployment(s.namespace, "chat", "example/chat:v1", 2)
			s.mustApply(wanted)
			meddle(s, get(s, "chat", &appsv1.Deployment{}))
			action := s.mustApply(wanted)["Deployment/chat"]
			if action != apply.Configured && action != apply.Created {
				t.Errorf("the pass says %s", action)
			}
			after := get(s, "chat", &appsv1.Deployment{})
			container := after.Spec.Template.Spec.Containers[0]
			want(t, wanted.Spec.Template.Spec.Containers[0].Env, container.Env)
			want(t, "example/chat:v1", container.Image)
			want(t, int32(2), *after.Spec.Replicas)
			want(t, wanted.Labels, after.Labels)
			want(t, s.owner.UID, metav1.GetControllerOf(after).UID)
			want(t, apply.Unchanged, s.mustApply(wanted)["Deployment/chat"])
		})
	}
}

// TestWhatOthersOwnIsLeftToThem: a status, annotations, injected containers and
// an autoscaler's replicas cause no write, and survive one.
func TestWhatOthersOwnIsLeftToThem(t *testing.T) {
	s := newStand(t)
	wanted := bed.Deployment(s.namespace, "chat", "example/chat:v1", -1)
	s.mustApply(wanted)
	scale(s, "chat", 5)
	live := get(s, "chat", &appsv1.Deployment{})
	s.change(live, func() {
		live.Annotations = map[string]string{"team": "x"}
		live.Labels["cost"] = "y"
		live.Spec.Template.Annotations = map[string]string{"restartedAt": "now"}
		live.Spec.Template.Spec.Containers = append(live.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "proxy:v1"})
	})
	live.Status.Replicas = 5
	if err := s.others.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	s.wire.Take()
	want(t, apply.Unchanged, s.mustApply(wanted)["Deployment/chat"])
	want(t, 0, len(s.wire.TakeWrites()))

	wanted.Spec.Template.Spec.Containers[0].Image = "example/chat:v2"
	want(t, apply.Configured, s.mustApply(wanted)["Deployment/chat"])
	after := get(s, "chat", &appsv1.Deployment{})
	want(t, int32(5), *after.Spec.Replicas)
	want(t, 2, len(after.Spec.Template.Spec.Containers))
	want(t, "x", after.Annotations["team"])
	want(t, "now", after.Spec.Template.Annotations["restartedAt"])
}

// TestReplicasAreHandedToAnAutoscaler: a renderer that stops rendering replicas
// leaves them as they are, and takes them back when it renders them again.
func TestReplicasAreHandedToAnAutoscaler(t *testing.T) {
	s := newStand(t)
	fixed, scaled := bed.Deployment(s.namespace, "chat", "example/chat:v1", 4), bed.Deployment(s.namespace, "chat", "example/chat:v1", -1)
	replicas := func() int32 { return *get(s, "chat", &appsv1.Deployment{}).Spec.Replicas }
	s.mustApply(fixed)
	preview, err := s.engine.Plan(t.Context(), apply.Owner{Object: s.owner}, s.inventory, bed.Want(t, scaled))
	if err != nil {
		t.Fatal(err)
	}
	want(t, apply.Unchanged, preview[0].Action)
	s.mustApply(scaled)
	want(t, int32(4), replicas())
	scale(s, "chat", 6)
	want(t, apply.Unchanged, s.mustApply(scaled)["Deployment/chat"])
	want(t, int32(6), replicas())
	scale(s, "chat", 3)
	want(t, int32(3), replicas())
	s.mustApply(fixed)
	want(t, int32(4), replicas())
}

// scale is what an autoscaler does.
func scale(s *stand, name string, replicas int32) {
	s.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	to := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	err := s.others.SubResource("scale").Update(s.Context(), deployment,
		client.WithSubResourceBody(to), client.FieldOwner("kube-controller-manager"))
	if err != nil {
		s.Fatal(err)
	}
}

// TestAnItemWhoseKeySomeoneChanged: the port of a Service's port is the key of
// its list. Changed, it is another item, which is theirs; ours beside it has the
// same name, and the server refuses the two.
func TestAnItemWhoseKeySomeoneChanged(t *testing.T) {
	s := newStand(t)
	wanted := bed.Service(s.namespace, "chat", 8080)
	s.mustApply(wanted)
	for _, port := range []int32{9999, 8888} { // also a second time
		there := get(s, "chat", &corev1.Service{})
		s.change(there, func() { there.Spec.Ports[0].Port = port })
		want(t, apply.Configured, s.mustApply(wanted)["Service/chat"])
		after := get(s, "chat", &corev1.Service{})
		want(t, 1, len(after.Spec.Ports))
		want(t, int32(8080), after.Spec.Ports[0].Port)
		want(t, apply.Unchanged, s.mustApply(wanted)["Service/chat"])
	}
	moved := bed.Service(s.namespace, "chat", 7000) // and our own change after it
	s.mustApply(moved)
	after := get(s, "chat", &corev1.Service{})
	want(t, 1, len(after.Spec.Ports))
	want(t, int32(7000), after.Spec.Ports[0].Port)
}
