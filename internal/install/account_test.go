package install_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	llmv1alpha1 "github.com/slipway-dev/slipway/api/llm/v1alpha1"
	"github.com/slipway-dev/slipway/internal/install"
	"github.com/slipway-dev/slipway/internal/manager"
)

// record is a log that can be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(content []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(content)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestTheChartsAccountIsEnough runs the operator with the rights of the chart's
// account and no others, from nothing to a served deployment and back.
func TestTheChartsAccountIsEnough(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	if err := llmv1alpha1.AddToScheme(w.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	log := runAs(t, w.namespace, "system:serviceaccount:"+w.namespace+":"+install.Release)

	deployment := &llmv1alpha1.LLMDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chat-service"},
		Spec:       llmv1alpha1.LLMDeploymentSpec{ModelRef: "gpt-small", Replicas: 2},
	}
	model := &llmv1alpha1.LLMModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpt-small"},
		Spec:       llmv1alpha1.LLMModelSpec{ModelName: "GPT-Small", Image: "your-registry/gpt-small:v1"},
	}
	for _, object := range []client.Object{deployment, model} {
		if err := w.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	await(t, &llmv1alpha1.LLMDeploymentList{}, "chat-service", "", func(event watch.Event) bool {
		found, ok := event.Object.(*llmv1alpha1.LLMDeployment)
		return ok && meta.IsStatusConditionTrue(found.Status.Conditions, "Ready")
	}, log)

	// A child that is deleted behind the operator's back comes again, a spec that
	// changes is applied, and events are written.
	child := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chat-service"}}
	if err := w.client.Delete(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	await(t, &appsv1.DeploymentList{}, "chat-service", "", func(event watch.Event) bool {
		found, ok := event.Object.(*appsv1.Deployment)
		return ok && event.Type != watch.Deleted && found.UID != child.UID && found.DeletionTimestamp == nil
	}, log)

	// Deletions are answered: the deployment's, and then the model's.
	for _, object := range []client.Object{model, deployment} {
		if err := w.client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for name, list := range map[string]client.ObjectList{"chat-service": &llmv1alpha1.LLMDeploymentList{}, "gpt-small": &llmv1alpha1.LLMModelList{}} {
		awaitGone(t, list, name, log)
	}
	if text := log.String(); strings.Contains(text, "forbidden") {
		t.Errorf("a right is missing:\n%s", text)
	}
}

// runAs runs the operator as an account until the test ends and returns its log.
func runAs(t *testing.T, namespace, account string) *record {
	t.Helper()
	config := rest.CopyConfig(cluster)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	log := &record{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- manager.Run(ctx, config, manager.Options{
			MetricsAddress: "0", HealthAddress: "0", Concurrency: 2, ShutdownGrace: time.Second,
			LeaderElection: true, LeaderElectionNamespace: namespace,
			Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended with: %v\n%s", err, log)
		}
	})
	return log
}

// await watches objects in the default namespace, from a version of their list or
// from what is there now, until one of a name is as wanted.
func await(t *testing.T, list client.ObjectList, name, since string, wanted func(watch.Event) bool, log *record) {
	t.Helper()
	watching, err := client.NewWithWatch(cluster, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	events, err := watching.Watch(ctx, list, client.InNamespace("default"), client.MatchingFields{"metadata.name": name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if wanted(event) {
			return
		}
	}
	t.Fatalf("%T %s isn't as it should be after %s; the operator's log:\n%s", list, name, patience, log)
}

// awaitGone waits until an object in the default namespace is gone.
func awaitGone(t *testing.T, list client.ObjectList, name string, log *record) {
	t.Helper()
	direct, err := client.New(cluster, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := direct.List(t.Context(), list, client.InNamespace("default"), client.MatchingFields{"metadata.name": name}); err != nil {
		t.Fatal(err)
	}
	if meta.LenList(list) > 0 {
		deleted := func(event watch.Event) bool { return event.Type == watch.Deleted }
		await(t, list, name, list.GetResourceVersion(), deleted, log)
	}
}

// TestTheChartsAccountIsNotMore asks the API server what the account may not do.
func TestTheChartsAccountIsNotMore(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(install.Options{})
	config := rest.CopyConfig(cluster)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.namespace + ":" + install.Release,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	account, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}
	for what, err := range map[string]error{
		"make a ClusterRole of rights that it doesn't hold": account.Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"delete"}}},
		}),
		"grant what it doesn't hold": account.Create(t.Context(), &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"create"}}},
		}),
		"bind an administrator's role": account.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "b"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		}),
		"make a token of another account": account.SubResource("token").Create(t.Context(), owner, &authenticationv1.TokenRequest{}),
		"act as another account":          actAs(t, config, owner),
		"delete a node":                   account.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
		"delete namespaces":               account.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
		"delete definitions":              account.Delete(t.Context(), &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "d"}}),
		"delete a model":                  account.Delete(t.Context(), &llmv1alpha1.LLMModel{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "default"}}),
	} {
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("the account may %s: %v", what, err)
		}
	}
}

// actAs asks whether an account may impersonate another.
func actAs(t *testing.T, config *rest.Config, other *corev1.ServiceAccount) error {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	asking, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "serviceaccounts", Namespace: other.Namespace, Name: other.Name},
	}}
	if err := asking.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if review.Status.Allowed {
		return nil
	}
	return errors.New("forbidden")
}
