package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/test/child"
)

// server is a running kelson serve, and an administrator's client of it.
type server struct {
	process *child.Process
	url     string
	client  *http.Client
}

// start starts kelson serve with the data directory in dir, and waits until it is ready.
func (o *options) start(ctx context.Context, dir string) (_ *server, err error) {
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	args := []string{"serve", "--secure-port", port, "--data-dir", filepath.Join(dir, "data"), "--kubeconfig",
		kubeconfig}
	process, err := child.Start(dir, o.kelson, append(args, strings.Fields(o.flags)...)...)
	if err != nil {
		return nil, err
	}
	srv := &server{process: process, url: "https://127.0.0.1:" + port}
	defer func() {
		if err != nil {
			srv.stop()
		}
	}()
	return srv, process.Await(ctx, 2*time.Minute, func(ctx context.Context) error {
		if err := srv.connect(kubeconfig); err != nil {
			return err
		}
		if _, err := srv.send(ctx, http.MethodGet, "/readyz", "", nil); err != nil {
			return err
		}
		_, err := srv.send(ctx, http.MethodGet, "/api/v1/namespaces/default", "", nil)
		return err
	})
}

// connect makes the client from the kubeconfig that the server has written for this port.
func (s *server) connect(kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	if cfg.Host != s.url {
		return fmt.Errorf("%s is of an earlier server", kubeconfig)
	}
	cfg.QPS = -1
	s.client, err = rest.HTTPClientFor(cfg)
	return err
}

func (s *server) stop() { s.process.Stop(20 * time.Second) }

// send sends a request and returns the body of its response.
func (s *server) send(ctx context.Context, method, path, media string, body []byte) ([]byte, error) {
	resp, err := s.open(ctx, method, path, media, "", body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// statusError is a response with an error.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// gone reports whether an error is a response with 404 or 409: a request for an object that a
// controller has deleted or changed in the meantime.
func gone(err error) bool {
	var status *statusError
	return errors.As(err, &status) && (status.status == http.StatusNotFound || status.status == http.StatusConflict)
}

// open sends a request and returns its response, whose body the caller must close.
func (s *server) open(ctx context.Context, method, path, media, accept string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 400))
		return nil, &statusError{resp.StatusCode, fmt.Sprintf("%s %.120s: %s: %s", method, path, resp.Status, text)}
	}
	return resp, nil
}

// listAll lists every resource once, as JSON.
func (s *server) listAll(ctx context.Context) error {
	versions, err := s.groupVersions(ctx)
	if err != nil {
		return err
	}
	for _, root := range versions {
		body, err := s.send(ctx, http.MethodGet, root, "", nil)
		if err != nil {
			return err
		}
		var resources struct {
			Resources []struct {
				Name  string
				Verbs []string
			}
		}
		if err := json.Unmarshal(body, &resources); err != nil {
			return err
		}
		for _, r := range resources.Resources {
			if strings.Contains(r.Name, "/") || !strings.Contains(strings.Join(r.Verbs, " "), "list") {
				continue
			}
			if err := s.drain(ctx, root+"/"+r.Name, "application/json"); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupVersions returns the paths of all served versions.
func (s *server) groupVersions(ctx context.Context) ([]string, error) {
	body, err := s.send(ctx, http.MethodGet, "/apis", "", nil)
	if err != nil {
		return nil, err
	}
	var groups struct {
		Groups []struct {
			Versions []struct{ GroupVersion string }
		}
	}
	if err := json.Unmarshal(body, &groups); err != nil {
		return nil, err
	}
	paths := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	return paths, nil
}

// drain reads a response without keeping it.
func (s *server) drain(ctx context.Context, path, accept string) error {
	resp, err := s.open(ctx, http.MethodGet, path, "", accept, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// memory has the bytes of a process, as the kernel counts them.
type memory struct {
	anon     int64 // private memory
	resident int64 // with the pages of the program's file
}

func (s *server) memory() (memory, error) {
	u, err := child.UsageOf(s.process.ID)
	if errors.Is(err, os.ErrProcessDone) {
		err = fmt.Errorf("%w:\n%s", err, s.process.Output())
	}
	return memory{u.Anonymous, u.Resident}, err
}

// settled returns the memory of the server when it is idle: the smallest of twenty seconds.
func (s *server) settled(ctx context.Context) (least memory, err error) {
	for range 20 {
		select {
		case <-ctx.Done():
			return least, ctx.Err()
		case <-time.After(time.Second):
		}
		m, err := s.memory()
		if err != nil {
			return least, err
		}
		if least.anon == 0 || m.anon < least.anon {
			least = m
		}
	}
	return least, nil
}

// metrics returns the server's metrics by their names with labels.
func (s *server) metrics(ctx context.Context) (map[string]float64, error) {
	body, err := s.send(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.SplitSeq(string(body), "\n") {
		name, value, found := strings.Cut(line, " ")
		if n, err := strconv.ParseFloat(value, 64); found && err == nil {
			all[name] = n
		}
	}
	return all, nil
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
