package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/bench/operator/sample"
	"kelson.dev/operator/client"
	"kelson.dev/test/child"
	"kelson.dev/test/peers"
)

// server is a control plane. Both control planes write to disk before they respond.
type server struct {
	name       string
	kubeconfig string
	client     client.Client
	processes  []*child.Process
}

func startKelson(ctx context.Context, dir string) (*server, error) {
	s := &server{name: "kelson", kubeconfig: filepath.Join(dir, "kelson.kubeconfig")}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	err = s.start(dir, *kelson, "serve", "--node=none", "--secure-port", port, "--data-dir",
		filepath.Join(dir, "state"), "--kubeconfig", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return s, s.ready(ctx)
}

func startPeer(ctx context.Context, dir string) (_ *server, err error) {
	s := &server{name: "kube-apiserver", kubeconfig: filepath.Join(dir, "peer.kubeconfig")}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	if err := writeKeys(dir, "https://127.0.0.1:"+port, s.kubeconfig); err != nil {
		return nil, fmt.Errorf("write keys: %w", err)
	}
	etcd, url, err := peers.Etcd(*binaries, dir, "--quota-backend-bytes", "8589934592")
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, etcd)
	api, err := peers.APIServer(*binaries, dir, dir, url, port)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, api)
	return s, s.ready(ctx)
}

// writeKeys creates the server's keys, and an administrator's kubeconfig.
func writeKeys(dir, url, kubeconfig string) error {
	authority, err := peers.WriteKeys(dir, "bench")
	if err != nil {
		return err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(*peers.Kubeconfig(url, authority, admin), kubeconfig)
}

// ready waits until the server is ready, and creates its client.
func (s *server) ready(ctx context.Context) error {
	return s.processes[len(s.processes)-1].Await(ctx, time.Minute, func(ctx context.Context) error {
		cfg, err := sample.Config(s.kubeconfig)
		if err != nil {
			return err
		}
		if s.client, err = client.New(client.Config{REST: cfg}); err != nil {
			return err
		}
		_, err = client.Get[corev1.Namespace](ctx, s.client, client.Key{Name: "default"})
		return err
	})
}

func (s *server) start(dir, binary string, args ...string) error {
	p, err := child.Start(dir, binary, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return err
}

// prepare prepares a measurement: it flushes pending disk writes and reads the executables into
// memory.
func (s *server) prepare() error {
	syscall.Sync()
	for _, p := range s.processes {
		if err := load(fmt.Sprintf("/proc/%d/exe", p.ID)); err != nil {
			return err
		}
	}
	return nil
}

// cpu returns the seconds of CPU time of the server and its etcd.
func (s *server) cpu() float64 {
	var all float64
	for _, p := range s.processes {
		used, _ := child.UsageOf(p.ID)
		all += used.CPU.Seconds()
	}
	return all
}

func (s *server) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Stop(20 * time.Second)
	}
}
