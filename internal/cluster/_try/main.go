package main

import (
	"context"
	"fmt"
	"os"

	"github.com/slipway-dev/slipway/internal/cluster/component"
)

func main() {
	var g []component.Group
	for _, a := range os.Args[1:] {
		g = append(g, component.Group(a))
	}
	p, err := component.Ensure(context.Background(), component.Options{Progress: os.Stderr}, g...)
	fmt.Println(p.Dir, err)
}
