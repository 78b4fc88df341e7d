package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/test/child"
)

// restTime is how long planes rest before memory is read.
const restTime = 5 * time.Second

// atRest measures the memory of control planes without requests: empty ones, and forks of one with
// a custom kind and a hundred objects. The first measurement is made with one running control
// plane, to exclude the memory that all control planes share.
func (o *options) atRest(ctx context.Context) ([]row, error) {
	var rows []row
	prepared, stop, err := prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, kind := range []struct {
		what string
		from *store.Snapshot
	}{{"empty", nil}, {"forks of one with a custom kind and 100 objects", prepared}} {
		before, err := used()
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		var planes []*controlplane.ControlPlane
		for range o.planes {
			plane, err := start(ctx, kind.from)
			if err != nil {
				return nil, err
			}
			if err := answers(ctx, plane); err != nil {
				return nil, err
			}
			planes = append(planes, plane)
		}
		took := time.Since(begun)
		after, err := used()
		if err != nil {
			return nil, err
		}
		if o.profile != "" && kind.from == nil {
			for name, suffix := range map[string]string{"heap": ".heap", "goroutine": ".goroutines"} {
				if err := profile(name, o.profile+suffix); err != nil {
					return nil, err
				}
			}
		}
		rows = append(rows,
			row{fmt.Sprintf("%d control planes in one process, %s: resident memory of each", o.planes, kind.what),
				"≤ 1 MiB",
				fmt.Sprintf("%.2f MiB", float64(after.resident-before.resident)/float64(o.planes)/(1<<20)), ""},
			row{"… goroutines of each", "", fmt.Sprintf("%.1f",
				float64(after.goroutines-before.goroutines)/float64(o.planes)), ""},
			row{"… start of each, with its first answer", "", milliseconds(took / time.Duration(o.planes)), ""})
		for _, plane := range planes {
			plane.Stop()
		}
	}
	return rows, nil
}

// start starts a control plane as package testenv does.
func start(ctx context.Context, from *store.Snapshot) (*controlplane.ControlPlane, error) {
	return controlplane.Start(ctx, controlplane.Config{From: from})
}

// answers checks that a plane responds to a request.
func answers(ctx context.Context, plane *controlplane.ControlPlane) error {
	client, err := dynamic.NewForConfig(plane.RESTConfig())
	if err != nil {
		return err
	}
	_, err = client.Resource(namespaces).Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
	return err
}

// prepare returns the state of a control plane with a custom kind and a hundred objects. The plane
// runs until stop, so that the data that control planes share stays in memory.
func prepare(ctx context.Context) (state *store.Snapshot, stop func(), err error) {
	plane, err := start(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	client, err := dynamic.NewForConfig(plane.RESTConfig())
	if err == nil {
		err = install(ctx, client)
	}
	for i := range 100 {
		if err == nil {
			_, err = client.Resource(widgets).Namespace(metav1.NamespaceDefault).Create(ctx, widget(i),
				metav1.CreateOptions{})
		}
	}
	if err != nil {
		plane.Stop()
		return nil, nil, err
	}
	return plane.Store().Snapshot(), plane.Stop, nil
}

func profile(name, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(out, 0), out.Close())
}

type usage struct {
	resident   int64 // bytes
	goroutines int
}

// used returns the memory that this process uses after a garbage collection.
func used() (usage, error) {
	time.Sleep(restTime)
	debug.FreeOSMemory()
	u, err := child.UsageOf(os.Getpid())
	return usage{u.Resident, runtime.NumGoroutine()}, err
}
