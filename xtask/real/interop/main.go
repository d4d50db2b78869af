// interop drives an API server with client-go and controller-runtime and asserts what it answers.
//
// Usage: interop client-go|controller-runtime KUBECONFIG [CONTENT-TYPE]
//
// Every step prints one line: "ok NAME" or "FAILED NAME: why". A step that fails ends the run. The last line has the
// number of steps, by which a truncated output is recognised.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds the wait for anything that another process does.
const patience = 60 * time.Second

// step is a named part of a run; later steps use what earlier ones made.
type step struct {
	name string
	run  func(ctx context.Context) error
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: interop client-go|controller-runtime KUBECONFIG [CONTENT-TYPE]")
		os.Exit(2)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config.QPS, config.Burst = 200, 400
	if len(os.Args) > 3 {
		config.ContentType = os.Args[3]
	}
	makers := map[string]func(*rest.Config) ([]step, error){
		"client-go":          clientSteps,
		"controller-runtime": managerSteps,
	}
	maker, known := makers[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "no such program:", os.Args[1])
		os.Exit(2)
	}
	steps, err := maker(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(runSteps(steps))
}

func runSteps(steps []step) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, one := range steps {
		if err := one.run(ctx); err != nil {
			fmt.Printf("FAILED %s: %v\n", one.name, err)
			return 1
		}
		fmt.Printf("ok %s\n", one.name)
	}
	fmt.Printf("steps %d\n", len(steps))
	return 0
}

// until repeats a question until its answer is yes.
func until(ctx context.Context, what string, ask func() (bool, error)) error {
	deadline := time.Now().Add(patience)
	for {
		yes, err := ask()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if yes {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %s", what, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// expect turns a condition into an error.
func expect(condition bool, format string, values ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, values...)
}
