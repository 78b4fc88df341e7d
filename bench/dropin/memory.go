package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"kelson.dev/test/child"
)

// memory is the resident memory of the servers of a side, in bytes.
type memory struct{ apiserver, etcd int64 }

func (m memory) total() int64 { return m.apiserver + m.etcd }

type process struct {
	args     []string
	resident int64
}

// childProcesses returns the processes that this one started, by the names of their programs.
func childProcesses() (map[string]process, error) {
	all := map[string]process{}
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		_, parent, _ := strings.Cut(string(status), "\nPPid:")
		if strings.TrimSpace(strings.SplitN(parent, "\n", 2)[0]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		folder := filepath.Dir(file)
		line, noLine := os.ReadFile(filepath.Join(folder, "cmdline"))
		id, noID := strconv.Atoi(filepath.Base(folder))
		used, ended := child.UsageOf(id)
		if noLine != nil || noID != nil || ended != nil {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		all[filepath.Base(args[0])] = process{args, used.Resident}
	}
	return all, nil
}

// weigh returns the resident memory before and after objects are created.
func (o *options) weigh(ctx context.Context, config *rest.Config) (idle, full memory, err error) {
	if idle, err = o.resident(ctx); err != nil {
		return idle, full, err
	}
	if err := o.fill(ctx, config); err != nil {
		return idle, full, err
	}
	full, err = o.resident(ctx)
	return idle, full, err
}

func (o *options) resident(ctx context.Context) (memory, error) {
	select {
	case <-time.After(o.idle):
	case <-ctx.Done():
		return memory{}, ctx.Err()
	}
	servers, err := childProcesses()
	return memory{servers["kube-apiserver"].resident, servers["etcd"].resident}, err
}

const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.bench.kelson.dev"},
"spec":{"group":"bench.kelson.dev","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"count":{"type":"integer"},"note":{"type":"string"}}}}}}}]}}`

// fill creates ConfigMaps and custom resources of a kilobyte each, with 16 clients.
func (o *options) fill(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	post := func(path, body string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(config.Host, "/")+path,
			bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusCreated {
			err = fmt.Errorf("POST %s: %s: %.300s", path, resp.Status, answer)
		}
		return err
	}
	if err := post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition); err != nil {
		return err
	}
	const widgets = "/apis/bench.kelson.dev/v1/namespaces/default/widgets"
	payload := strings.Repeat("x", 900)
	body := func(i int) (path, body string) {
		if i < o.objects {
			return "/api/v1/namespaces/default/configmaps",
				fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"},"data":{"k":%q}}`, i,
					payload)
		}
		return widgets, fmt.Sprintf(`{"apiVersion":"bench.kelson.dev/v1","kind":"Widget","metadata":{"name":"w%d"},"spec":{"count":%d,"note":%q}}`, i, i, payload)
	}
	// retry until the kind is served
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := post(widgets, `{"apiVersion":"bench.kelson.dev/v1","kind":"Widget","metadata":{"name":"first"}}`)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return err
		}
	}
	var next atomic.Int64
	var group sync.WaitGroup
	var once sync.Once
	for range 16 {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < 2*o.objects; i = int(next.Add(1)) - 1 {
				if failed := post(body(i)); failed != nil {
					once.Do(func() { err = failed })
					return
				}
			}
		})
	}
	group.Wait()
	return err
}
