package stages

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/operator/client"
)

//go:embed definition.yaml
var definition []byte

// Install creates the definition of Stages, unless there is one, and the Stages of Config, and
// replaces the specs of existing ones. Without Stages, it does nothing.
func (c *Controller) Install(ctx context.Context) error {
	if len(c.cfg.Stages) == 0 {
		return nil
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &crd.Object); err != nil {
		return err
	}
	if err := c.client.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the definition of Stages: %w", err)
	}
	for !c.served() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	for _, s := range c.cfg.Stages {
		if err := c.install(ctx, s); err != nil {
			return fmt.Errorf("install stage %q: %w", s.Name, err)
		}
	}
	return nil
}

func (c *Controller) served() bool {
	gvk := (&stage.Stage{}).GroupVersionKind()
	gvk.Group, gvk.Kind = stage.Group, stage.Kind
	_, ok := c.cfg.Registry.Current().ByKind(gvk.GroupKind())
	return ok
}

func (c *Controller) install(ctx context.Context, s *stage.Stage) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(stage.APIVersion)
	u.SetKind(stage.Kind)
	delete(u.Object, "status")
	if err := c.client.Create(ctx, u.DeepCopy()); !apierrors.IsAlreadyExists(err) {
		return err
	}
	found := u.DeepCopy()
	if err := c.client.Get(ctx, client.KeyOf(u), found); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(found.Object["spec"], u.Object["spec"]) {
		return nil
	}
	found.Object["spec"] = u.Object["spec"]
	return c.client.Update(ctx, found)
}
