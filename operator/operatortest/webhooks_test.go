package operatortest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"
	"kelson.dev/operator/webhook"
)

// keeper sets a default value in ConfigMaps, and refuses the value "bad".
type keeper struct{}

func (keeper) Default(_ context.Context, c *corev1.ConfigMap) error {
	if c.Data["v"] == "" {
		c.Data = map[string]string{"v": "default"}
	}
	return nil
}

func (keeper) ValidateCreate(_ context.Context, c *corev1.ConfigMap) (webhook.Warnings, error) {
	if c.Data["v"] == "bad" {
		return nil, errors.New("a bad value")
	}
	return nil, nil
}

// The control plane calls the webhooks of an operator in the test, in a plane and its fork.
func TestWebhooks(t *testing.T) {
	needKelson(t)
	run := operatortest.Operator(operator.Name("keeper"),
		operator.Webhook[corev1.ConfigMap](func(operator.Client) keeper { return keeper{} }))
	check := func(env *operatortest.Env) {
		t.Helper()
		env.AwaitWebhooks(t)
		bad := configMap("bad", "bad")
		bad.Namespace = "default"
		err := env.Client().Create(t.Context(), bad, client.WriteOptions{DryRun: true})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "a bad value") {
			t.Errorf("a bad value: %v", err)
		}
		given := configMap("given", "")
		env.Create(t, given)
		assert.Equalf(t, given.Data["v"], "default", "data %v, want the default", given.Data)
	}
	env := operatortest.New(t, operatortest.Webhooks(), run)
	check(env)
	check(operatortest.New(t, operatortest.Webhooks()).Fork(t, run))
	// With the rights of production, an operator cannot create webhook configurations.
	check(operatortest.New(t, operatortest.Webhooks(), operatortest.RBAC("testdata/rbac"), run))
	check(operatortest.New(t, operatortest.Webhooks(), operatortest.Role("testdata/rbac"), run))
}

// With Role, an operator has the rights of the roles and no others.
func TestRole(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t, operatortest.Role("testdata/rbac"))
	c, err := client.New(client.Config{REST: env.OperatorRESTConfig()})
	require.NoError(t, err)
	if _, err := client.Get[corev1.ConfigMap](t.Context(), c,
		client.Key{Namespace: "default", Name: "none"}); !apierrors.IsNotFound(err) {
		t.Errorf("a read that the role allows: %v, want not found", err)
	}
	own := configMap("new", "")
	own.Namespace = "default"
	if err := c.Create(t.Context(), own); !apierrors.IsForbidden(err) {
		t.Errorf("a write that the role does not allow: %v, want forbidden", err)
	}
}
