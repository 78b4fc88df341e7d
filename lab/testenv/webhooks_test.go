package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"
)

// ShipV1 counts masts as text, and Ship, the hub and storage version, as a number.
type ShipV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Masts             string `json:"masts,omitempty"`
	Rig               string `json:"rig,omitempty"`
}

type Ship struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Masts             int    `json:"masts,omitempty"`
	Rig               string `json:"rig,omitempty"`
}

func (s *Ship) Hub()                             {}
func (s *Ship) DeepCopyObject() runtime.Object   { c := *s; return &c }
func (s *ShipV1) DeepCopyObject() runtime.Object { c := *s; return &c }

func (s *ShipV1) ConvertTo(hub webhook.Hub) error {
	h := hub.(*Ship)
	h.ObjectMeta, h.Rig = s.ObjectMeta, s.Rig
	_, err := fmt.Sscan(s.Masts, &h.Masts)
	return err
}

func (s *ShipV1) ConvertFrom(hub webhook.Hub) error {
	h := hub.(*Ship)
	s.ObjectMeta, s.Rig, s.Masts = h.ObjectMeta, h.Rig, fmt.Sprint(h.Masts)
	return nil
}

var shipGroup = schema.GroupVersion{Group: "sea.example.com", Version: "v2"}

func addShips(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(shipGroup.WithKind("Ship"), &Ship{})
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: shipGroup.Group, Version: "v1", Kind: "Ship"}, &ShipV1{})
	return nil
}

// shipyard defaults the rig, and refuses more than nine masts.
type shipyard struct{}

func (shipyard) Default(_ context.Context, s *Ship) error {
	if s.Rig == "" {
		s.Rig = "square"
	}
	return nil
}

func (shipyard) ValidateCreate(_ context.Context, s *Ship) (webhook.Warnings, error) {
	if s.Masts > 9 {
		return nil, errors.New("too many masts")
	}
	return nil, nil
}

func (y shipyard) ValidateUpdate(ctx context.Context, _, s *Ship) (webhook.Warnings, error) {
	return y.ValidateCreate(ctx, s)
}

func (shipyard) ValidateDelete(context.Context, *Ship) (webhook.Warnings, error) { return nil, nil }

func shipOperator() []operator.Part {
	return []operator.Part{
		operator.Name("ships"), operator.AddToScheme(addShips), operator.Conversion[Ship](),
		operator.Webhook[Ship](func(operator.Client) shipyard { return shipyard{} }),
	}
}

func vessel(version, name string, masts any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sea.example.com/" + version, "kind": "Ship",
		"metadata": map[string]any{"namespace": "default", "name": name}, "masts": masts,
	}}
}

// sockets returns the number of sockets of this process.
func sockets(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("SKIPPED: no /proc/self/fd")
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil &&
			strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// sail creates and reads ships in both versions, for which the webhooks must work.
func sail(t *testing.T, env *testenv.Env) {
	t.Helper()
	ctx := t.Context()
	old := vessel("v1", "pinta", "3")
	env.Create(t, old) // converted for admission and for the store, and back for the response
	if rig, _, _ := unstructured.NestedString(old.Object, "rig"); rig != "square" {
		t.Errorf("the rig is %q, want the default", rig)
	}
	current := vessel("v2", "pinta", nil)
	env.Get(t, current)
	masts, _, _ := unstructured.NestedInt64(current.Object, "masts")
	assert.Equalf(t, masts, 3, "v2 has %v masts, want the number 3", current.Object["masts"])
	env.Get(t, old)
	if old.Object["masts"] != "3" {
		t.Errorf("v1 has %v masts, want the text 3", old.Object["masts"])
	}
	for version, masts := range map[string]any{"v1": "12", "v2": int64(12)} {
		err := env.Client().Create(ctx, vessel(version, "vasa", masts))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "too many masts") {
			t.Errorf("a ship of %s with 12 masts: %v", version, err)
		}
	}
	env.Create(t, vessel("v2", "nina", int64(2)))
	current.Object["masts"] = int64(10)
	if err := env.Client().Update(ctx, current); !apierrors.IsForbidden(err) {
		t.Errorf("an update to 10 masts: %v", err)
	}
}

// Defaulting, validation and conversion work in a bubble, through TLS, without any socket, in an
// environment, in its fork and after certificates were renewed.
func TestWebhooks(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []testenv.Option
	}{
		{"registered by manifests", []testenv.Option{testenv.Webhooks("testdata/ships/webhooks.yaml")}},
		{"registered by the operator", []testenv.Option{testenv.Webhooks()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := sockets(t)
			synctest.Test(t, func(t *testing.T) {
				opts := append(test.opts, testenv.CRDs("testdata/ships/crd.yaml"), testenv.Operator(shipOperator()...))
				env := testenv.New(t, opts...)
				env.Settle(t)
				sail(t, env)
				if n := sockets(t); n != before {
					t.Errorf("%d sockets, want %d as before", n, before)
				}
				// The serving certificate lives for 90 days.
				time.Sleep(100 * 24 * time.Hour)
				env.Settle(t)
				if err := env.Client().Create(t.Context(), vessel("v1", "vasa", "12")); !apierrors.IsForbidden(err) {
					t.Errorf("after 100 days: %v", err)
				}
				fork := env.Fork(t, testenv.Operator(shipOperator()...))
				fork.Settle(t)
				if err := fork.Client().Create(t.Context(), vessel("v1", "vasa", "12")); !apierrors.IsForbidden(err) {
					t.Errorf("in a fork: %v", err)
				}
				fork.Create(t, vessel("v1", "santa-maria", "4"))
				if n := sockets(t); n != before {
					t.Errorf("%d sockets, want %d as before", n, before)
				}
			})
		})
	}
}

// ServeWebhooks serves any handler for the Services in the registrations.
func TestServeWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t, testenv.Webhooks("testdata/ships"), testenv.CRDs("testdata/ships/crd.yaml"),
			testenv.Run(func(ctx context.Context, _ *rest.Config) error {
				return testenv.ServeWebhooks(ctx, handlers(t))
			}))
		env.Settle(t)
		sail(t, env)
	})
}

// handlers returns the webhooks of ships as another library would serve them.
func handlers(t *testing.T) http.Handler {
	scheme := runtime.NewScheme()
	assert.NoError(t, addShips(scheme))
	mutating, validating, err := webhook.Handlers[Ship](shipyard{})
	assert.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle(webhook.MutatePath(shipGroup.WithKind("Ship")), webhook.Review(mutating))
	mux.Handle(webhook.ValidatePath(shipGroup.WithKind("Ship")), webhook.Review(validating))
	mux.Handle(webhook.ConvertPath, webhook.NewConversion(scheme))
	return mux
}

// Without the option, the functions that need it fail with a message.
func TestServeWebhooksWithoutOption(t *testing.T) {
	failed := make(chan error, 1)
	testenv.New(t, testenv.Run(func(ctx context.Context, _ *rest.Config) error {
		failed <- testenv.ServeWebhooks(ctx, http.NotFoundHandler())
		<-ctx.Done()
		return nil
	}))
	assert.ErrorContains(t, <-failed, "testenv.Webhooks")
}

var _ client.Object = (*Ship)(nil)
