package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"

	"kelson.dev/examples/ingress-manager/internal/controller"
)

func run(ctx context.Context, config *rest.Config) error { return controller.Run(ctx, config, 2) }

func service(annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: annotations},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}},
	}
}

// story tests an Ingress from its creation to its deletion. settle waits until check returns nil.
func story(t *testing.T, c client.Client, settle func(check func() error)) {
	ctx := t.Context()
	ingress := func(check func(*networkingv1.Ingress) error) {
		t.Helper()
		settle(func() error {
			found, err := client.Get[networkingv1.Ingress](ctx, c, client.Key{Namespace: "default", Name: "web"})
			if apierrors.IsNotFound(err) {
				return check(nil)
			}
			if err != nil {
				return err
			}
			return check(found)
		})
	}
	none := func(found *networkingv1.Ingress) error {
		if found != nil && found.DeletionTimestamp.IsZero() {
			return errors.New("there is an Ingress")
		}
		return nil
	}
	forHost := func(host string, port int32) func(*networkingv1.Ingress) error {
		return func(found *networkingv1.Ingress) error {
			if found == nil {
				return errors.New("the Ingress does not exist")
			}
			backend := found.Spec.Rules[0].HTTP.Paths[0].Backend.Service
			if found.Spec.Rules[0].Host != host || backend.Name != "web" || backend.Port.Number != port {
				return fmt.Errorf("the Ingress is for %q and sends requests to %v", found.Spec.Rules[0].Host, backend)
			}
			return nil
		}
	}
	change := func(f func(*corev1.Service)) {
		t.Helper()
		s, err := client.Get[corev1.Service](ctx, c, client.Key{Namespace: "default", Name: "web"})
		must(t, err)
		f(s)
		must(t, c.Update(ctx, s))
	}

	must(t, c.Create(ctx, service(nil)))
	ingress(none)
	change(func(s *corev1.Service) { s.Annotations = map[string]string{controller.Annotation: "web.example.com"} })
	ingress(forHost("web.example.com", 8080))
	change(func(s *corev1.Service) { s.Annotations[controller.Annotation] = "true"; s.Spec.Ports[0].Port = 9090 })
	ingress(forHost("", 9090))

	// Changes by other clients are reverted, except for fields that the controller does not set.
	class := "nginx"
	found, err := client.Get[networkingv1.Ingress](ctx, c, client.Key{Namespace: "default", Name: "web"})
	must(t, err)
	found.Spec.Rules[0].Host, found.Spec.IngressClassName = "elsewhere.example.com", &class
	must(t, c.Update(ctx, found))
	ingress(forHost("", 9090))
	found, err = client.Get[networkingv1.Ingress](ctx, c, client.KeyOf(found))
	must(t, err)
	if found.Spec.IngressClassName == nil || *found.Spec.IngressClassName != class {
		t.Error("the class of the Ingress was removed")
	}
	must(t, c.Delete(ctx, found))
	ingress(forHost("", 9090))

	change(func(s *corev1.Service) { s.Annotations = nil })
	ingress(none)

	// The controller does not change an Ingress that another client created. When that Ingress is
	// deleted, the Service gets its own.
	stranger := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "other",
				Port: networkingv1.ServiceBackendPort{Number: 1}}}}}
	must(t, c.Create(ctx, stranger))
	change(func(s *corev1.Service) { s.Annotations = map[string]string{controller.Annotation: ""} })
	ingress(func(found *networkingv1.Ingress) error {
		if found == nil || found.Spec.DefaultBackend == nil {
			return errors.New("the other client's Ingress was deleted")
		}
		return nil
	})
	must(t, c.Delete(ctx, stranger))
	// otherwise the controller may see the Service before the Ingress, and retry later
	settle(func() error { return nil })
	// the retries may be exhausted
	change(func(s *corev1.Service) { s.Labels = map[string]string{"touch": "ed"} })
	ingress(forHost("", 9090))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestIngress(t *testing.T) {
	env := operatortest.New(t, operatortest.RBAC("../../config/rbac"), operatortest.Run(run))
	story(t, env.Client(), func(check func() error) { t.Helper(); retry(t, check) })
	// The garbage collector deletes the Ingress after the Service.
	must(t, env.Client().Delete(t.Context(), service(nil)))
	retry(t, func() error {
		_, err := client.Get[networkingv1.Ingress](t.Context(), env.Client(),
			client.Key{Namespace: "default", Name: "web"})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Ingress is left behind: %v", err)
		}
		return nil
	})
}

// retry calls check until it returns nil.
func retry(t *testing.T, check func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = check(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

// TestIngressOnAServer runs the same story on the server of a kubeconfig: go run ./test/against
// runs it on kube-apiserver.
func TestIngressOnAServer(t *testing.T) {
	path := os.Getenv("KELSON_TEST_KUBECONFIG")
	if path == "" {
		t.Skip("SKIPPED: needs another API server: set KELSON_TEST_KUBECONFIG to its kubeconfig")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	c, err := client.New(client.Config{REST: config})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, config) }()
	story(t, c, func(check func() error) { t.Helper(); retry(t, check) })
	cancel()
	must(t, <-ended)
	must(t, c.Delete(t.Context(), service(nil)))
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	// where no garbage collector runs
	must(t, client.IgnoreNotFound(c.Delete(t.Context(), ingress)))
}
