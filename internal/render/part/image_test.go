package part_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/internal/render/part"
)

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"a":                                corev1.PullAlways,
		"a:latest":                         corev1.PullAlways,
		"example.com:5000/a":               corev1.PullAlways,
		"example.com/a:latest@sha256:0123": corev1.PullAlways,
		"a:1":                              corev1.PullIfNotPresent,
		"example.com:5000/team/a:latest-1": corev1.PullIfNotPresent,
		"example.com/a@sha256:0123":        corev1.PullIfNotPresent,
		"example.com/a:1@sha256:0123":      corev1.PullIfNotPresent,
	} {
		if got := part.PullPolicy(image); got != want {
			t.Errorf("%s: %s, want %s", image, got, want)
		}
	}
}
