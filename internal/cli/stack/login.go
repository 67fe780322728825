package stack

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1alpha1 "github.com/slipway-dev/slipway/api/platform/v1alpha1"
	"github.com/slipway-dev/slipway/internal/registry"
)

// Logins are the user's own credentials for registries, in docker's form.
type Logins map[string]any

// FindLogins finds the user's own credentials for registries that a stack shall have:
// what podman login keeps on this machine, the cluster needs too. It asks no cluster, so
// that nothing is written where one is missing.
func FindLogins(ctx context.Context, stack *platformv1alpha1.PlatformStack, registries []string, find func(ctx context.Context, host, repository string) (registry.Credentials, error)) (Logins, error) {
	if len(registries) > 0 && len(stack.Spec.PullSecrets) == 0 {
		return nil, fmt.Errorf("--login: PlatformStack %s names no Secret for credentials; name one in spec.pullSecrets", stack.Name)
	}
	logins := Logins{}
	for _, host := range registries {
		found, err := find(ctx, host, "")
		if err != nil {
			return nil, err
		}
		if found.Username == "" || found.Password == "" {
			return nil, fmt.Errorf("there are no credentials for %s on this machine; log in with podman login %s, or leave --login out", host, host)
		}
		logins[host] = map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte(found.Username + ":" + found.Password))}
	}
	return logins, nil
}

// Login puts credentials into the first pull secret of a stack. The Secret's other
// registries are kept.
func Login(ctx context.Context, kube client.Client, stack *platformv1alpha1.PlatformStack, logins Logins) error {
	if len(logins) == 0 {
		return nil
	}
	at := client.ObjectKey{Namespace: stack.Spec.PullSecrets[0].Namespace, Name: stack.Spec.PullSecrets[0].Name}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.Namespace}}
	if err := kube.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the namespace %s of the pull secret can't be made: %w", at.Namespace, err)
	}
	return store(ctx, kube, at, logins)
}

// Hint adds the flag by which this command mends it to an error about a pull secret that
// isn't there. Other errors stay.
func Hint(err error, stack *platformv1alpha1.PlatformStack) error {
	var blocked *BlockedError
	if !errors.As(err, &blocked) {
		return err
	}
	for _, secret := range stack.Spec.PullSecrets {
		if strings.Contains(err.Error(), secret.Name+" in namespace "+secret.Namespace+" doesn't exist") {
			return fmt.Errorf("%w; --login REGISTRY makes it of what podman login keeps", err)
		}
	}
	return err
}

// store writes credentials into a Secret of docker's form. No error repeats what is in it.
func store(ctx context.Context, kube client.Client, at client.ObjectKey, logins Logins) error {
	secret := &corev1.Secret{}
	err := kube.Get(ctx, at, secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	content := map[string]any{}
	if err == nil {
		if secret.Type != corev1.SecretTypeDockerConfigJson || json.Unmarshal(secret.Data[corev1.DockerConfigJsonKey], &content) != nil {
			return fmt.Errorf("the Secret %s holds no credentials of registries (type %s); delete it, or name another in spec.pullSecrets", at, corev1.SecretTypeDockerConfigJson)
		}
	}
	auths, _ := content["auths"].(map[string]any)
	if auths == nil {
		auths = map[string]any{}
	}
	for host, entry := range logins {
		auths[host] = entry
	}
	content["auths"] = auths
	text, marshalErr := json.Marshal(content)
	if marshalErr != nil {
		return errors.New("the credentials can't be written as JSON")
	}
	if apierrors.IsNotFound(err) {
		return kube.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: text},
		})
	}
	if string(secret.Data[corev1.DockerConfigJsonKey]) == string(text) {
		return nil
	}
	secret.Data[corev1.DockerConfigJsonKey] = text
	return kube.Update(ctx, secret)
}
