package storagemigration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/kubernetes/controllers/aggregated"
)

// page is the number of objects that a request to another server lists.
const page = 500

// served returns a resource of another API server.
func (c *Controller) served(group schema.GroupResource) (aggregated.Kind, bool) {
	kinds, _ := c.cfg.Servers.Kinds() // includes resources of servers that do not respond
	for _, kind := range kinds {
		if kind.GroupResource() == group {
			return kind, true
		}
	}
	return aggregated.Kind{}, false
}

// syncServed runs a migration of a resource of another server. If the server refuses a request, for
// example because it lacks the method, the migration fails. Other errors are returned, so that it
// is tried again.
func (c *Controller) syncServed(ctx context.Context, m *migrationv1.StorageVersionMigration,
	kind aggregated.Kind) error {
	err := c.migrateServed(ctx, kind)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return c.succeed(ctx, m)
	case errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsResourceExpired(err):
		return c.end(ctx, m, migrationv1.MigrationFailed, "StorageVersionMigrationFailed",
			"migration encountered unhandled error: "+err.Error())
	}
	return fmt.Errorf("migrate %s: %w", kind.GroupResource(), err)
}

// migrateServed sends a patch that changes nothing to each object of another server.
func (c *Controller) migrateServed(ctx context.Context, kind aggregated.Kind) error {
	all, err := c.cfg.Servers.Client(kind.GroupVersionResource, "")
	if err != nil {
		return err
	}
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := func() (*metav1.PartialObjectMetadataList, error) {
			ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
			defer cancel()
			return all.List(ctx, options)
		}()
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := c.touch(ctx, kind, &list.Items[i]); err != nil {
				return fmt.Errorf("%s/%s: %w", list.Items[i].Namespace, list.Items[i].Name, err)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// touch sends a patch that changes nothing. An object that was written or deleted since it was
// listed needs none.
func (c *Controller) touch(ctx context.Context, kind aggregated.Kind, object *metav1.PartialObjectMetadata) error {
	version, name := kind.GroupVersion().WithKind(kind.Kind).ToAPIVersionAndKind()
	body, err := json.Marshal(map[string]any{
		"apiVersion": version, "kind": name,
		"metadata": map[string]any{"uid": object.UID, "resourceVersion": object.ResourceVersion},
	})
	if err != nil {
		return err
	}
	client, err := c.cfg.Servers.Client(kind.GroupVersionResource, object.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, aggregated.Timeout)
	defer cancel()
	_, err = client.Patch(ctx, object.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The error can name another object.
		now, absent := client.Get(ctx, object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(absent) || absent == nil && now.ResourceVersion != object.ResourceVersion {
			return nil
		}
	}
	return err
}
