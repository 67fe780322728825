package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/helm"
	"github.com/slipway-dev/slipway/internal/reconcile/helmrelease"
	"github.com/slipway-dev/slipway/internal/release"
	"github.com/slipway-dev/slipway/test/bed"
	"github.com/slipway-dev/slipway/test/integration/helm/fixture"
)

const (
	// releases is the size of the budget for Helm releases.
	releases = 100
	// helmers is how many of them are worked on at a time, by both.
	helmers = 4
)

// chartValues make ten objects, and no pods: neither side waits for a node.
var chartValues = map[string]any{"replicas": 0}

// inParallel does something for each release, helmers at a time, and gives the
// time that it took.
func inParallel(b *testing.B, do func(i int) error) time.Duration {
	b.Helper()
	begin := time.Now()
	queue := make(chan int)
	errs := make(chan error, releases)
	var group sync.WaitGroup
	for range helmers {
		group.Go(func() {
			for i := range queue {
				errs <- do(i)
			}
		})
	}
	for i := range releases {
		queue <- i
	}
	close(queue)
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin)
}

// helmCommand builds the helm command that tools/go.mod pins into bin/tools.
func helmCommand(b *testing.B) string {
	b.Helper()
	path, err := filepath.Abs("../../bin/tools/helm")
	if err != nil {
		b.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", path, "helm.sh/helm/v4/cmd/helm")
	build.Dir = "../../tools"
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build helm: %v\n%s", err, out)
	}
	return path
}

// byHelm is the baseline: the helm command, once for each release.
func byHelm(b *testing.B, path, kubeconfig, verb string) time.Duration {
	b.Helper()
	dir := b.TempDir()
	archive, file := filepath.Join(dir, "stack.tgz"), filepath.Join(dir, "values.yaml")
	values, err := yaml.Marshal(chartValues)
	if err == nil {
		err = os.WriteFile(file, values, 0o600)
	}
	if err == nil {
		err = os.WriteFile(archive, fixture.Archive(b, "1.0.0"), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return inParallel(b, func(i int) error {
		run := exec.CommandContext(b.Context(), path, verb, fmt.Sprintf("r%03d", i), archive, "--namespace", "helm", "--values", file)
		run.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+dir)
		if out, err := run.CombinedOutput(); err != nil {
			return fmt.Errorf("helm %s: %w\n%s", verb, err, out)
		}
		return nil
	})
}

// untilGood runs a release until it is settled.
func untilGood(runner *helmrelease.Runner, chart *helm.Chart, i int) error {
	want := helmrelease.Want{Name: fmt.Sprintf("r%03d", i), Namespace: "slipway", Chart: chart, Values: chartValues, CRDs: helmrelease.CRDsSkip}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		report, err := runner.Run(context.Background(), want)
		switch {
		case err != nil:
			return err
		case report.Decision.Kind == release.Nothing:
			return nil
		case report.Decision.Kind == release.Stop:
			return fmt.Errorf("%+v", report.Decision)
		}
		<-time.After(report.Again%time.Second + 10*time.Millisecond) // what its caller's queue would do
	}
	return fmt.Errorf("release %s isn't good after %s", want.Name, patience)
}

// BenchmarkHelmReleases: 100 releases of a ten-object chart from nothing until
// they are known to be ready, and once more when nothing has changed, against the
// helm command in the same run.
func BenchmarkHelmReleases(b *testing.B) {
	path := helmCommand(b)
	for b.Loop() {
		w := newWorld(b)
		w.namespace("helm")
		w.namespace("slipway")
		install := byHelm(b, path, w.plane.Kubeconfig(), "install")
		upgrade := byHelm(b, path, w.plane.Kubeconfig(), "upgrade")

		wire := &bed.Wire{}
		config := wire.Through(w.config)
		direct, err := client.New(config, client.Options{Scheme: w.client.Scheme()})
		if err != nil {
			b.Fatal(err)
		}
		runner := helmrelease.New(helmrelease.Options{Config: config, Client: direct, Cache: fixture.Cache(b, w.config, "slipway")})
		chart := fixture.Chart(b, "1.0.0")
		ours := inParallel(b, func(i int) error { return untilGood(runner, chart, i) })
		installing := wire.Take()
		again := func() time.Duration { return inParallel(b, func(i int) error { return untilGood(runner, chart, i) }) }
		again() // what was written last reaches the cache
		wire.Take()
		idle := again()
		atRest := wire.Take()

		b.ReportMetric(install.Seconds(), "s/helm-install")
		b.ReportMetric(ours.Seconds(), "s/install")
		b.ReportMetric(ours.Seconds()/install.Seconds(), "ratio-install")
		b.ReportMetric(upgrade.Seconds(), "s/helm-upgrade-unchanged")
		b.ReportMetric(idle.Seconds()*1000/releases, "ms/run-unchanged")
		b.ReportMetric(float64(len(installing))/releases, "requests/install")
		b.ReportMetric(float64(len(atRest)), "requests-unchanged(=0)")
		w.plane.Stop()
	}
}
