package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"kelson.dev/bench/operator/sample"
	"kelson.dev/operator/client"
	"kelson.dev/test/child"
)

type server struct {
	process    *child.Process
	kubeconfig string
	client     client.Client
}

func startServer(ctx context.Context, dir string) (*server, error) {
	s := &server{kubeconfig: filepath.Join(dir, "kubeconfig")}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(*kelson)
	if err != nil {
		return nil, err
	}
	s.process, err = child.Start(dir, binary, "serve", "--node=none", "--secure-port", port, "--data-dir", filepath.Join(dir, "state"), "--kubeconfig", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return s, poll(ctx, time.Minute, s.process, func() error {
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

// poll calls a function until it succeeds, the time is up or a process ends.
func poll(ctx context.Context, patience time.Duration, p *child.Process, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.Done:
			return fmt.Errorf("process ended: %w\n%s", err, p.Output())
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w\n%s", patience, err, p.Output())
		}
	}
}

// define creates the definitions in a folder and waits until Clusters are served.
func (s *server) define(ctx context.Context, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no definitions in %s: run test/adapter/cluster-api.sh build", folder)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		// as Cluster API's kustomization labels them, for its contract of versions
		crd.SetLabels(map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"})
		if err := s.client.Create(ctx, crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return poll(ctx, time.Minute, s.process, func() error {
		return s.client.List(ctx, &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterList"}})
	})
}

func (s *server) createClusters(ctx context.Context, n int) error {
	for i := range n {
		cluster := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
			"metadata": map[string]any{"namespace": "default", "name": fmt.Sprintf("cluster-%04d", i), "labels": map[string]any{"team": fmt.Sprintf("team-%d", i%20)}},
			"spec": map[string]any{
				"clusterNetwork":       map[string]any{"pods": map[string]any{"cidrBlocks": []any{"10.0.0.0/16"}}},
				"controlPlaneEndpoint": map[string]any{"host": "example.com", "port": int64(6443)},
			},
		}}
		if err := s.client.Create(ctx, cluster); err != nil {
			return err
		}
	}
	return nil
}
