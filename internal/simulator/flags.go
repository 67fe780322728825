package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// ErrHelp is what Load returns for --help.
var ErrHelp = errors.New("help is wanted")

// shape says how many values an option takes.
type shape int

const (
	one  shape = iota // exactly one; the last one given counts
	many              // one or more, as vLLM's nargs="+"; all add up
	flag              // none, or true or false
)

// option is one flag, which is a key of the YAML file too.
type option struct {
	name  string
	shape shape
	help  string // empty for what is accepted and has no effect
	set   func(*Config, []string) error
}

// Load makes a configuration. The command line counts before the environment,
// and that before the YAML file that --config names. It returns ErrHelp for
// --help, and for everything wrong one line that says what to write instead.
func Load(args []string, getenv func(string) string) (Config, error) {
	config := Default()
	given, err := parseArgs(args)
	if err != nil {
		return config, err
	}
	if path := given["config"]; len(path) > 0 {
		inFile, err := readFile(path[len(path)-1])
		if err != nil {
			return config, err
		}
		if err := apply(&config, inFile); err != nil {
			return config, fmt.Errorf("%s: %w", path[len(path)-1], err)
		}
	}
	if err := apply(&config, fromEnvironment(given, getenv)); err != nil {
		return config, fmt.Errorf("environment: %w", err)
	}
	if err := apply(&config, given); err != nil {
		return config, err
	}
	config.Pod, config.Namespace = getenv("POD_NAME"), getenv("POD_NAMESPACE")
	if config.Seed == 0 {
		config.Seed = rand.Int64()
	}
	return config, config.Complete()
}

// fromEnvironment returns what the environment says where no flag does. PORT
// and MODEL_NAME are what Slipway's LLMDeployment sets on its containers;
// PYTHONHASHSEED is vLLM's seed of block hashes.
func fromEnvironment(given map[string][]string, getenv func(string) string) map[string][]string {
	values := map[string][]string{}
	take := func(option, variable string) {
		if value := getenv(variable); value != "" && given[option] == nil {
			values[option] = []string{value}
		}
	}
	take("port", "PORT")
	take("hash-seed", "PYTHONHASHSEED")
	take("model", "SIM_MODEL")
	if given["model"] == nil {
		take("served-model-name", "MODEL_NAME")
	}
	return values
}

// parseArgs reads flags as vLLM's argparse does: --name value, --name=value,
// several values after a name that takes them, underscores for dashes, and
// --no-name for a flag.
func parseArgs(args []string) (map[string][]string, error) {
	given := map[string][]string{}
	known := optionsByName()
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "-h" || arg == "--help" || arg == "-help" {
			return nil, ErrHelp
		}
		if len(arg) < 2 || arg[0] != '-' {
			return nil, fmt.Errorf("unexpected argument %q; flags start with --", arg)
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		name = strings.ReplaceAll(name, "_", "-")
		opt, ok := known[name]
		if !ok {
			positive, negated := strings.CutPrefix(name, "no-")
			if opt, ok = known[positive]; !ok || !negated || opt.shape != flag || hasValue {
				return nil, fmt.Errorf("unknown flag --%s; `slipway simulator --help` lists the flags", name)
			}
			given[positive] = []string{"false"}
			continue
		}
		var values []string
		if hasValue {
			values = []string{value}
		}
		for ; takesMore(opt, values) && i+1 < len(args) && isValue(opt, args[i+1]); i++ {
			values = append(values, args[i+1])
		}
		switch {
		case len(values) == 0 && opt.shape == flag:
			values = []string{"true"}
		case len(values) == 0:
			return nil, fmt.Errorf("flag --%s needs a value", name)
		}
		if opt.shape == many {
			values = append(given[name], values...)
		}
		given[name] = values
	}
	return given, nil
}

// takesMore tells whether an option with these values may take another.
func takesMore(opt option, values []string) bool {
	return len(values) == 0 || opt.shape == many
}

// isValue tells whether the next argument is a value and not a flag. A
// negative number is a value.
func isValue(opt option, arg string) bool {
	if opt.shape == flag {
		return arg == "true" || arg == "false"
	}
	if _, err := strconv.ParseFloat(arg, 64); err == nil {
		return true
	}
	return arg == "" || arg[0] != '-'
}

// apply sets every given option. Options are set in the order of their names,
// so that of several faults the same one is told each time.
func apply(config *Config, given map[string][]string) error {
	known := optionsByName()
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		opt := known[name]
		if opt.set == nil {
			continue
		}
		if opt.shape != many && len(given[name]) != 1 {
			return fmt.Errorf("--%s takes one value, not %d", name, len(given[name]))
		}
		if err := opt.set(config, given[name]); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}

func optionsByName() map[string]option {
	byName := map[string]option{}
	for _, opt := range options() {
		byName[opt.name] = opt
	}
	return byName
}

// Help returns the list of flags as --help prints it.
func Help() string {
	var text strings.Builder
	text.WriteString("Flags (each is a key of the --config file too):\n")
	for _, opt := range options() {
		if opt.help != "" {
			fmt.Fprintf(&text, "  --%-38s %s\n", opt.name, opt.help)
		}
	}
	text.WriteString("\nAccepted, without effect: ")
	var ignored []string
	for _, opt := range options() {
		if opt.help == "" && opt.set == nil && len(opt.name) > 1 {
			ignored = append(ignored, "--"+opt.name)
		}
	}
	text.WriteString(strings.Join(ignored, ", "))
	text.WriteString(".\n\nEnvironment, where no flag is given: PORT, MODEL_NAME (the served model's name),\nSIM_MODEL (the model), PYTHONHASHSEED (hash-seed). POD_NAME and POD_NAMESPACE are named in answers' headers.\n")
	return text.String()
}

func text(field func(*Config) *string) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		*field(c) = values[0]
		return nil
	}
}

func number(field func(*Config) *int) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		n, err := strconv.Atoi(values[0])
		if err != nil {
			return fmt.Errorf("%q is not a whole number", values[0])
		}
		*field(c) = n
		return nil
	}
}

func real(field func(*Config) *float64) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		n, err := strconv.ParseFloat(values[0], 64)
		if err != nil || n != n {
			return fmt.Errorf("%q is not a number", values[0])
		}
		*field(c) = n
		return nil
	}
}

func boolean(field func(*Config) *bool) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		b, err := strconv.ParseBool(values[0])
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", values[0])
		}
		*field(c) = b
		return nil
	}
}

func duration(field func(*Config) *time.Duration) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		d, err := parseLatency(values[0])
		if err != nil {
			return err
		}
		*field(c) = d
		return nil
	}
}

// longestLatency bounds every configured time.
const longestLatency = time.Hour

// parseLatency reads whole milliseconds, as llm-d-inference-sim wrote them up
// to v0.8, or a Go duration, as it does from v0.9.
func parseLatency(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if ms, atoiErr := strconv.Atoi(text); atoiErr == nil {
		if ms > int(longestLatency/time.Millisecond) {
			ms = int(longestLatency/time.Millisecond) + 1
		}
		d, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a time; write milliseconds (100) or a duration (100ms, 1.5s)", text)
	}
	if d < 0 || d > longestLatency {
		return 0, fmt.Errorf("%q is out of bounds; it must be from 0 to 1h", text)
	}
	return d, nil
}

func seed(c *Config, values []string) error {
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", values[0])
	}
	c.Seed = n
	return nil
}

func adapters(c *Config, values []string) error {
	c.Adapters = nil
	for _, value := range values {
		value = strings.TrimSpace(value)
		var list []Adapter
		var err error
		if strings.HasPrefix(value, "[") {
			err = json.Unmarshal([]byte(value), &list)
		} else if name, path, plain := strings.Cut(value, "="); plain && !strings.HasPrefix(value, "{") {
			list = []Adapter{{Name: name, Path: path}}
		} else {
			list = make([]Adapter, 1)
			err = json.Unmarshal([]byte(value), &list[0])
		}
		if err != nil {
			return fmt.Errorf(`%q is not an adapter; write {"name":"NAME","path":"PATH"}: %w`, value, err)
		}
		c.Adapters = append(c.Adapters, list...)
	}
	return nil
}

// list splits values at commas too, as llm-d-inference-sim's lists do.
func list(field func(*Config) *[]string) func(*Config, []string) error {
	return func(c *Config, values []string) error {
		var all []string
		for _, value := range values {
			for item := range strings.SplitSeq(value, ",") {
				if item = strings.TrimSpace(item); item != "" {
					all = append(all, item)
				}
			}
		}
		*field(c) = all
		return nil
	}
}

// unsupported refuses an option that would promise what isn't there.
func unsupported(reason string) func(*Config, []string) error {
	return func(*Config, []string) error { return errors.New("not supported: " + reason) }
}

// maxConfigFile is the most bytes that a YAML file may have.
const maxConfigFile = 1 << 20

// readBounded returns a file's content, or an error when it is larger than
// limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return os.ReadFile(path)
}
