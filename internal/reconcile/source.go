package reconcile

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/render/source"
)

// ReadSource reads the ConfigMap or Secret that a spec refers to. Its error is the
// API server's.
func ReadSource(ctx context.Context, from client.Reader, of source.Source) (source.Data, error) {
	key := client.ObjectKey{Namespace: of.Namespace, Name: of.Name}
	if of.Kind == source.KindSecret {
		secret := &corev1.Secret{}
		err := from.Get(ctx, key, secret)
		return secret.Data, err
	}
	config := &corev1.ConfigMap{}
	err := from.Get(ctx, key, config)
	data := source.Data{}
	for name, text := range config.Data {
		data[name] = []byte(text)
	}
	for name, content := range config.BinaryData {
		data[name] = content
	}
	return data, err
}
