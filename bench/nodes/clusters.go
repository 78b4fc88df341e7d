package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// atRest measures a server with simulated nodes and nothing else.
func atRest(ctx context.Context, count int) error {
	s, err := serve(fmt.Sprintf("--nodes=%d", count))
	if err != nil {
		return err
	}
	defer s.stop()
	if err := waitNodes(ctx, s.client, count); err != nil {
		return err
	}
	started, err := s.usage()
	if err != nil {
		return err
	}
	if err := pause(ctx, *settle); err != nil {
		return err
	}
	done := s.profile(ctx, fmt.Sprintf("rest-%d", count))
	busy, after, err := s.over(ctx, *period)
	if err != nil {
		return err
	}
	done()
	fmt.Printf("| %d nodes at rest (%.1f s of processor time until they were ready) | | %.3f of a core | %d MiB | %d MiB | %s |\n",
		count, started.cpu.Seconds(), busy, after.private>>20, after.resident>>20, load())
	return nil
}

// over returns the share of a core that the server uses over a time, and its usage at the end.
func (s *server) over(ctx context.Context, d time.Duration) (share float64, after usage, err error) {
	before, err := s.usage()
	if err != nil {
		return 0, after, err
	}
	began := time.Now()
	if err := pause(ctx, d); err != nil {
		return 0, after, err
	}
	if after, err = s.usage(); err != nil {
		return 0, after, err
	}
	return (after.cpu - before.cpu).Seconds() / time.Since(began).Seconds(), after, nil
}

// deployed measures a Deployment on nodes that are ready, with the scheduler and the controllers.
func deployed(ctx context.Context, replicas, count int) error {
	s, err := serve(fmt.Sprintf("--nodes=%d", count))
	if err != nil {
		return err
	}
	defer s.stop()
	if err := waitNodes(ctx, s.client, count); err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	before, err := s.usage()
	if err != nil {
		return err
	}
	done := s.profile(ctx, fmt.Sprintf("deployment-%d", replicas))
	began := time.Now()
	if _, err := s.client.AppsV1().Deployments("default").Create(ctx, deployment(replicas),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.waitDeployment(ctx, replicas); err != nil {
		return err
	}
	took := time.Since(began)
	ready, err := s.usage()
	if err != nil {
		return err
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	after, err := s.usage()
	if err != nil {
		return err
	}
	done()
	fmt.Printf("| a Deployment of %d replicas on %d nodes | %.1f s | %.1f s, %.1f s with what follows | %d MiB | %d MiB | %s |\n",
		replicas, count, took.Seconds(), (ready.cpu - before.cpu).Seconds(), (after.cpu - before.cpu).Seconds(),
		ready.private>>20, ready.resident>>20, load())
	return nil
}

// quiet waits until the server uses less than a third of a processor.
func (s *server) quiet(ctx context.Context) error {
	for {
		share, _, err := s.over(ctx, 2*time.Second)
		if err != nil || share < 0.33 {
			return err
		}
	}
}

func deployment(replicas int) *appsv1.Deployment {
	count, labels := int32(replicas), map[string]string{"app": "bench"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: appsv1.DeploymentSpec{
		Replicas: &count, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "app", Image: "example.com/app:1",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"),
						corev1.ResourceMemory: resource.MustParse("10Mi")}},
			}}}},
	}}
}

func (s *server) waitDeployment(ctx context.Context, replicas int) error {
	for {
		d, err := s.client.AppsV1().Deployments("default").Get(ctx, "bench", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if int(d.Status.ReadyReplicas) == replicas {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d replicas are ready: %w", d.Status.ReadyReplicas, replicas, err)
		}
	}
}

// ofClusters measures rows of clusters, each with a server of its own.
func ofClusters(ctx context.Context, rows []string) error {
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	fmt.Print("| cluster | until all are Ready | processor time of the server | private memory | resident memory | load |\n|---|--:|--:|--:|--:|--:|\n")
	for _, row := range rows {
		measures := map[string][]func() error{
			"rest": {func() error { return atRest(ctx, 1000) }},
			"deployments": {func() error {
				return deployed(ctx, 1000, 100)
			}, func() error { return deployed(ctx, 3000, 1000) }},
			"scale": {func() error { return scaled(ctx, *scaleNodes, *scalePods) }},
		}[row]
		if measures == nil {
			return fmt.Errorf("row %q: want rest, deployments or scale", row)
		}
		for _, measure := range measures {
			if err := measure(); err != nil {
				return fmt.Errorf("%s: %w", row, err)
			}
		}
	}
	return nil
}
