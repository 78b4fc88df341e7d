package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kelson.dev/bench/median"
	"kelson.dev/kubernetes/controlplane"
)

// starts measures how long processes take to become ready. The sides take turns, and the table has
// medians.
func (o *options) starts(ctx context.Context, r *results) error {
	if !o.wanted("start") {
		return nil
	}
	var all [columns][]time.Duration
	for range o.startRounds {
		for i, s := range o.table.sides {
			if !o.wantedSide(i) {
				continue
			}
			srv, err := o.start(ctx, s)
			if err := (&life{options: o, column: i, results: r}).lost(ctx, err, "start"); err != nil {
				return err
			}
			if err != nil {
				continue
			}
			all[i] = append(all[i], srv.readyIn)
			srv.stop()
		}
	}
	for i := range all {
		if len(all[i]) > 0 && r.figures[i]["start"].failure == nil {
			r.set(i, "start", figure{measured: true, value: float64(median.Of(all[i]))})
		}
	}
	return nil
}

// inProcess compares a control plane in the process of a test with envtest, which starts processes.
func (o *options) inProcess(ctx context.Context, r *results) error {
	if !o.wanted("inprocess-start", "inprocess-stop") {
		return nil
	}
	log.SetLogger(logr.Discard())
	for _, one := range []struct {
		column, rounds int
		measure        func(context.Context) (start, stop time.Duration, err error)
	}{{2, 3, o.envtest}, {3, 50, o.controlPlane}} {
		if !o.wantedSide(one.column) {
			continue
		}
		var starts, stops []time.Duration
		var err error
		for range one.rounds {
			start, stop, failed := one.measure(ctx)
			if failed != nil {
				err = failed
				break
			}
			starts, stops = append(starts, start), append(stops, stop)
		}
		if err := (&life{options: o, column: one.column, results: r}).lost(ctx, err, "inprocess-start",
			"inprocess-stop"); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		r.set(one.column, "inprocess-start", figure{measured: true, value: float64(median.Of(starts))})
		r.set(one.column, "inprocess-stop", figure{measured: true, value: float64(median.Of(stops))})
	}
	return nil
}

func (o *options) controlPlane(ctx context.Context) (start, stop time.Duration, err error) {
	begin := time.Now()
	plane, err := controlplane.Start(ctx, controlplane.Config{})
	if err != nil {
		return 0, 0, err
	}
	err = firstAnswer(plane.Transport(), "http://plane")
	start = time.Since(begin)
	begin = time.Now()
	plane.Stop()
	return start, time.Since(begin), err
}

func (o *options) envtest(context.Context) (start, stop time.Duration, err error) {
	peers, err := filepath.Abs(o.peers)
	if err != nil {
		return 0, 0, err
	}
	env := &envtest.Environment{BinaryAssetsDirectory: peers}
	begin := time.Now()
	config, err := env.Start()
	if err != nil {
		return 0, 0, err
	}
	transport, err := rest.TransportFor(config)
	if err == nil {
		err = firstAnswer(transport, config.Host)
	}
	start = time.Since(begin)
	begin = time.Now()
	if stopped := env.Stop(); err == nil {
		err = stopped
	}
	return start, time.Since(begin), err
}

func firstAnswer(transport http.RoundTripper, url string) error {
	resp, err := (&http.Client{Transport: transport}).Get(strings.TrimSuffix(url, "/") + "/api/v1/namespaces")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("first answer: %s", resp.Status)
	}
	return nil
}
