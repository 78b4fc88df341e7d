package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
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
	s.process, err = child.Start(dir, binary, "serve", "--node=none", "--secure-port", port, "--data-dir",
		filepath.Join(dir, "state"), "--kubeconfig", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return s, s.process.Await(ctx, time.Minute, func(ctx context.Context) error {
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

// define creates a program's definitions and waits until their kinds are served. folder has the
// program's source in a folder named after its version.
func (s *server) define(ctx context.Context, w workload, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "v*.*", w.definitions, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no definitions in %s: run test/adapter/project.sh %s build", folder, w.name)
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
		for name, value := range w.labels {
			crd.SetLabels(merged(crd.GetLabels(), name, value))
		}
		if err := s.client.Create(ctx, crd); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := s.established(ctx, crd); err != nil {
			return err
		}
	}
	return nil
}

// established waits until the kind of a definition is served.
func (s *server) established(ctx context.Context, crd *unstructured.Unstructured) error {
	return s.process.Await(ctx, time.Minute, func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.KeyOf(crd), crd, client.Live); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
		for _, c := range conditions {
			if condition, ok := c.(map[string]any); ok && condition["type"] == "Established" &&
				condition["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("%s is not established", crd.GetName())
	})
}

func merged(m map[string]string, name, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[name] = value
	return m
}

// create creates the objects of a workload.
func (s *server) create(ctx context.Context, w workload) error {
	for i := range w.count {
		for _, object := range w.objects(i) {
			if err := s.client.Create(ctx, object); err != nil {
				return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

// readerToken returns a token whose user may read the metrics of a program that asks the server.
func (s *server) readerToken(ctx context.Context) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bench"}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "bench"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "bench"}},
	}
	for _, object := range []client.Object{account, role, binding} {
		if err := s.client.Create(ctx, object); err != nil {
			return "", err
		}
	}
	cfg, err := sample.Config(s.kubeconfig)
	if err != nil {
		return "", err
	}
	accounts, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return "", err
	}
	token, err := accounts.ServiceAccounts("default").CreateToken(ctx, "bench", &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return token.Status.Token, nil
}
