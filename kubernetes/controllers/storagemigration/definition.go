package storagemigration

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
)

const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// runner is the field manager of kube-controller-manager's writes to definitions.
const runner = "migration-runner-controller"

// begin sets the condition StorageMigrating of the definition of a custom resource. Resources
// without a definition need nothing.
func (c *Controller) begin(ctx context.Context, group schema.GroupResource, migration string) error {
	definition, err := c.definition(ctx, group)
	if definition == nil || err != nil {
		return err
	}
	message := "Migration " + migration + " is running"
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.StorageMigrating && condition.Message == message &&
			condition.ObservedGeneration == definition.Generation {
			return nil // reported by an earlier attempt
		}
	}
	return c.report(ctx, definition, apiextensionsv1.ConditionTrue, "MigrationRunning", message, nil)
}

// finish ends the condition of begin, and removes all versions but the storage version from
// status.storedVersions. If the definition has changed since begin, another version may have become
// the storage version in the meantime, so the stored versions stay.
func (c *Controller) finish(ctx context.Context, group schema.GroupResource) error {
	definition, err := c.definition(ctx, group)
	if definition == nil || err != nil {
		return err
	}
	message := "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
	var stored []string
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.StorageMigrating && condition.ObservedGeneration == definition.Generation {
			message = "The migration has succeeded and the stored versions have been updated"
			stored = []string{storageVersion(definition)}
		}
	}
	return c.report(ctx, definition, apiextensionsv1.ConditionFalse, "MigrationSucceeded", message, stored)
}

func storageVersion(definition *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

// definition returns the definition of a resource; nil if it has none.
func (c *Controller) definition(ctx context.Context,
	group schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
	sn, err := c.cfg.Store.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	definition, err := derived.Get[apiextensionsv1.CustomResourceDefinition](sn, definitions, "", group.String())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return definition, err
}

// report applies the condition StorageMigrating, and the stored versions if there are any, to the
// definition that was read. If the definition has been written since, the error is a conflict.
func (c *Controller) report(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition,
	status apiextensionsv1.ConditionStatus, reason, message string, stored []string) error {
	changes := map[string]any{"conditions": []any{map[string]any{
		"type": apiextensionsv1.StorageMigrating, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": definition.Generation,
	}}}
	if stored != nil {
		changes["storedVersions"] = stored
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": definition.Name, "resourceVersion": definition.ResourceVersion},
		"status":   changes,
	})
	if err != nil {
		return err
	}
	err = c.client.StoragemigrationV1().RESTClient().Patch(types.ApplyPatchType).
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition.Name, "status").
		Param("fieldManager", runner).Param("force", strconv.FormatBool(true)).Body(body).Do(ctx).Error()
	return follow.IgnoreGone(c.cfg.Store, store.Key{Resource: definitions, Name: definition.Name}, definition.UID, err)
}
