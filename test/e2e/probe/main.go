// Command probe is what the end-to-end tests run in pods: it serves its host's
// name, answers the webhooks of an operator, fetches a URL, posts to one once or at a
// rate, and writes and reads a file. It does nothing else.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	case len(args) == 3 && args[0] == "get":
		return getTimes(ctx, args[1], args[2])
	case len(args) == 3 && args[0] == "post":
		return post(ctx, args[1], args[2])
	case len(args) == 4 && args[0] == "load":
		return load(ctx, args[1], args[2], args[3])
	case len(args) == 3 && args[0] == "webhooks":
		return webhooks(ctx, args[1], args[2])
	case len(args) == 1 && args[0] == "eat":
		return eat()
	case len(args) == 3 && args[0] == "write":
		return os.WriteFile(args[1], []byte(args[2]), 0o600)
	case len(args) == 2 && args[0] == "read":
		data, err := os.ReadFile(args[1])
		fmt.Print(string(data))
		return err
	default:
		return fmt.Errorf("usage: probe eat | serve ADDRESS | webhooks ADDRESS DIR | get URL TIMES | post URL BODY | load ADDRESS URL RATE | write FILE TEXT | read FILE")
	}
}

func serve(ctx context.Context, address string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("serving as", host)
	return listen(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, host)
	}))
}

func listen(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: 5 * time.Second, Handler: handler}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// eat takes memory until the limit of its container ends it, or a gigabyte is
// taken.
func eat() error {
	var taken [][]byte
	for range 1024 {
		block := make([]byte, 1<<20)
		for i := range block {
			block[i] = 1 // a page that is never written is never there
		}
		taken = append(taken, block)
	}
	return fmt.Errorf("%d MiB were there to take", len(taken))
}

// getTimes fetches a URL so many times, and prints a line for each.
func getTimes(ctx context.Context, url, times string) error {
	n, err := strconv.Atoi(times)
	if err != nil {
		return err
	}
	for range n {
		if err := get(ctx, url); err != nil {
			return err
		}
		fmt.Println()
	}
	return nil
}

// get prints what a URL answers, without reusing a connection.
func get(ctx context.Context, url string) error {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(os.Stdout, io.LimitReader(response.Body, 1<<20))
	return err
}
