package bed

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaitDeadline bounds every wait for an object.
const awaitDeadline = 2 * time.Minute

// Await watches an object until it is as wanted, and returns it so. Why it isn't
// yet is what the function returns; empty means that it is.
func Await[T client.Object](t testing.TB, c client.WithWatch, object T, list client.ObjectList, missing func(T) string) T {
	t.Helper()
	last := "it isn't there"
	look(t, c, object, list, func(there bool) bool {
		if last = "it isn't there"; there {
			last = missing(object)
		}
		return last == ""
	}, func() string { return last })
	return object
}

// AwaitGone waits until an object isn't there any more.
func AwaitGone(t testing.TB, c client.WithWatch, object client.Object, list client.ObjectList) {
	t.Helper()
	look(t, c, object, list, func(there bool) bool { return !there }, func() string { return "it is still there" })
}

// look reads an object now and after each change of its kind in its namespace,
// until it is as wanted. It works beyond the end of the test's own context, for
// what is cleaned up.
func look(t testing.TB, c client.WithWatch, object client.Object, list client.ObjectList, done func(there bool) bool, last func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), awaitDeadline)
	defer cancel()
	watcher, err := c.Watch(ctx, list, client.InNamespace(object.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatalf("%s: %v; last: %s", object.GetName(), err, last())
		}
		if done(!apierrors.IsNotFound(err)) {
			return
		}
		if _, open := <-watcher.ResultChan(); !open {
			t.Fatalf("%s after at most %s: %s", object.GetName(), awaitDeadline, last())
		}
	}
}
