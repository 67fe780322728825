package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cgroupMount is where systems mount control groups (cgroups(7)).
const cgroupMount = "/sys/fs/cgroup"

// cgroupDir is the folder below every hierarchy that holds a cluster's groups.
func cgroupDir(cluster string) string { return "slipway-" + cluster }

// cgroups makes and removes the control groups of a cluster.
type cgroups struct {
	mount   string
	cluster string
}

// unified says whether the machine has one hierarchy (version 2).
func (c cgroups) unified() bool {
	_, err := os.Stat(filepath.Join(c.mount, "cgroup.controllers"))
	return err == nil
}

// hierarchies are the roots below which groups are made.
func (c cgroups) hierarchies() ([]string, error) {
	if c.unified() {
		return []string{c.mount}, nil
	}
	entries, err := os.ReadDir(c.mount)
	if err != nil {
		return nil, fmt.Errorf("list the control groups: %w", err)
	}
	var roots []string
	for _, entry := range entries {
		// A link stands for controllers that share a hierarchy.
		if entry.IsDir() {
			roots = append(roots, filepath.Join(c.mount, entry.Name()))
		}
	}
	return roots, nil
}

// make creates a node's group in every hierarchy, and returns its path as the
// kubelet wants it: below the hierarchies' roots.
func (c cgroups) make(node string) (string, error) {
	roots, err := c.hierarchies()
	if err != nil {
		return "", err
	}
	relative := filepath.Join(cgroupDir(c.cluster), node)
	for _, root := range roots {
		if c.unified() {
			err = delegate(root, relative)
		} else {
			err = makeV1(root, relative)
		}
		if err != nil {
			return "", err
		}
	}
	return "/" + relative, nil
}

// delegate makes nested groups of version 2, and hands the controllers that the
// kubelet needs down to each level.
func delegate(root, relative string) error {
	dir := root
	for _, part := range append(strings.Split(relative, "/"), "") {
		available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("read the controllers of %s: %w", dir, err)
		}
		for _, controller := range strings.Fields(string(available)) {
			err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0)
			if err != nil && (controller == "cpu" || controller == "memory" || controller == "pids") {
				return fmt.Errorf("hand the %s controller down from %s (systemd: set Delegate=yes for this session): %w", controller, dir, err)
			}
		}
		if part == "" {
			return nil
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a control group: %w", err)
		}
	}
	return nil
}

// makeV1 makes nested groups of version 1. A new cpuset holds no processor until
// it is told, and nothing can run in it before.
func makeV1(root, relative string) error {
	dir := root
	for part := range strings.SplitSeq(relative, "/") {
		parent := dir
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			// Not every hierarchy takes groups: the unified one beside version 1 may not.
			if filepath.Base(root) == "unified" {
				return nil
			}
			return fmt.Errorf("make a control group: %w", err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0); err != nil {
				return fmt.Errorf("fill %s: %w", filepath.Join(dir, file), err)
			}
		}
	}
	return nil
}

// remove removes every group of the cluster. Its processes must be dead; a
// group is busy for a moment after its last one.
func (c cgroups) remove(ctx context.Context) error {
	roots, err := c.hierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopDeadline)
	defer cancel()
	for _, root := range roots {
		dir := filepath.Join(root, cgroupDir(c.cluster))
		for {
			err := removeTree(dir)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("remove the control group %s: %w", dir, err)
			case <-time.After(probeInterval):
			}
		}
	}
	return nil
}

// removeTree removes a group and those in it, from the inside out. The files in
// a group go with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	err = os.Remove(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
