package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/slipway-dev/slipway/internal/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	t := time.Now()
	c, err := cluster.StartControlPlane(ctx, cluster.Options{ControllerManager: true, Scheduler: true, SimulatedNodes: 2, Dir: os.Args[1]})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Kubeconfig(), time.Since(t))
	<-ctx.Done()
	c.Stop()
}
