package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/slipway-dev/slipway/localcluster/envoy/internal/bootstrap"
)

// wrapperName is the program's name in images whose entry point fills in a
// template; wrapperConfig is the file that it reads, and wrapperVariable the
// environment variable that names another.
const (
	wrapperName     = "envoyinit"
	wrapperConfig   = "/etc/envoy/envoy.yaml"
	wrapperVariable = "INPUT_CONF"
)

// defaultDrain is Envoy's default of --drain-time-s.
const defaultDrain = 600

// options are what the command line says.
type options struct {
	text                        []byte
	serviceNode, serviceCluster string
	validate                    bool
	drain                       time.Duration
	concurrency                 int
}

// levels are Envoy's log levels.
var levels = []string{"trace", "debug", "info", "warning", "warn", "error", "critical", "off"}

// parse reads the command line and the bootstrap that it names. It takes the
// flags that the stand-in honours or that change nothing it has, and no other.
func parse(args []string, getenv func(string) string) (*options, error) {
	opts := &options{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var path, text, mode, level, components string
	var drain int
	var ignored bool
	both(flags, &path, "c", "config-path")
	both(flags, &level, "l", "log-level")
	flags.StringVar(&text, "config-yaml", "", "")
	flags.StringVar(&opts.serviceNode, "service-node", "", "")
	flags.StringVar(&opts.serviceCluster, "service-cluster", "", "")
	flags.StringVar(&components, "component-log-level", "", "")
	flags.StringVar(&mode, "mode", "serve", "")
	flags.IntVar(&drain, "drain-time-s", defaultDrain, "")
	flags.IntVar(&opts.concurrency, "concurrency", 0, "")
	flags.BoolVar(&ignored, "disable-hot-restart", false, "")
	if err := flags.Parse(args[1:]); err != nil {
		return nil, fmt.Errorf("%w; the stand-in takes -c, --config-yaml, --service-node, --service-cluster, --log-level, --mode, --drain-time-s and --concurrency", err)
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("%q is no flag", flags.Arg(0))
	case level != "" && !slices.Contains(levels, level):
		return nil, fmt.Errorf("--log-level %s: is none of %s", level, strings.Join(levels, ", "))
	case mode != "serve" && mode != "validate":
		return nil, fmt.Errorf("--mode %s: the stand-in knows serve and validate", mode)
	case drain < 0 || opts.concurrency < 0:
		return nil, errors.New("--drain-time-s and --concurrency can't be negative")
	}
	opts.validate, opts.drain = mode == "validate", time.Duration(drain)*time.Second
	var err error
	opts.text, err = source(filepath.Base(args[0]) == wrapperName, path, text, getenv)
	return opts, err
}

func both(flags *flag.FlagSet, into *string, short, long string) {
	flags.StringVar(into, short, "", "")
	flags.StringVar(into, long, "", "")
}

// source is the bootstrap's text: from a file, from the command line, or, for
// the wrapper, from a file that is a template.
func source(wrapper bool, path, text string, getenv func(string) string) ([]byte, error) {
	switch {
	case wrapper && path != "":
		return nil, errors.New("envoyinit reads " + wrapperConfig + " and takes no -c")
	case wrapper:
		path = wrapperConfig
		if named := getenv(wrapperVariable); named != "" {
			path = named
		}
		data, err := read(path)
		if err != nil {
			return nil, err
		}
		return fill(path, data, getenv)
	case path != "" && text != "":
		return nil, errors.New("-c and --config-yaml together: the stand-in doesn't merge them; give one")
	case text != "":
		return []byte(text), nil
	case path != "":
		return read(path)
	}
	return nil, errors.New("no bootstrap: give -c FILE or --config-yaml TEXT")
}

// read reads a file up to the bound of a bootstrap.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("no bootstrap: %w", err)
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, bootstrap.MaxSize+1))
}

// pod is what a template may ask for, from the environment.
type pod struct{ PodName, PodNamespace, PodIp, NodeName, NodeIp, PodSvcAccount string } //nolint:revive,staticcheck // the wrapper's names

// fill executes a bootstrap as a template, as the wrapper does before it starts
// Envoy. So a bootstrap that contains {{ must escape it there.
func fill(path string, data []byte, getenv func(string) string) ([]byte, error) {
	parsed, err := template.New(filepath.Base(path)).Option("missingkey=error").Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("envoyinit: %w", err)
	}
	var out strings.Builder
	values := pod{
		getenv("POD_NAME"), getenv("POD_NAMESPACE"), getenv("POD_IP"),
		getenv("NODE_NAME"), getenv("NODE_IP"), getenv("POD_SVCACCOUNT"),
	}
	if err := parsed.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("envoyinit: %w", err)
	}
	return []byte(out.String()), nil
}
