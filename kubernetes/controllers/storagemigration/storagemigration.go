// Package storagemigration replaces storage-version-migrator-controller: for each
// StorageVersionMigration, it stores again the objects that are stored in an older form, and
// reports the result in the migration's status. For a custom resource, it also reports the result
// in the definition's condition StorageMigrating. It removes the versions in which no object is
// stored from status.storedVersions, so that they can be removed from the definition.
//
// Older forms are custom objects that were stored under an earlier state of their definition (in
// another version, or before a change of defaults), and, over etcd, values that were encrypted with
// an earlier key. Kelson's own store encrypts everything with the current key at each checkpoint.
// Over etcd the controller can't see which key encrypted a value, so it stores all objects again.
// Watches see a migrated object as modified.
//
// For the objects of another API server, to which an APIService refers, the controller sends
// patches that change nothing, as kube-controller-manager does. The server then stores an object
// again if the stored bytes would differ.
package storagemigration

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/aggregated"
	"kelson.dev/kubernetes/controllers/follow"
)

const migrations = "storageversionmigrations.storagemigration.k8s.io"

// manager is the field manager of writes, except those to definitions.
const manager = "storage-version-migrator-controller"

// unknownFor is how long a resource may be unknown before its migration fails: its definition may
// be created at the same time.
const unknownFor = time.Minute

// Config configures the controller. Store, Registry and REST are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// REST writes the status.
	REST *restclient.Config
	// Servers are the API servers behind the control plane.
	Servers *aggregated.Servers
	Log     *slog.Logger
}

// Controller migrates the objects of one control plane.
type Controller struct {
	cfg    Config
	client kubernetes.Interface // nil until first use
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "storage migration", Store: c.cfg.Store, Resources: []string{migrations}, Log: c.cfg.Log,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
		Sync: c.sync,
	})
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	stored, err := derived.Get[migrationv1.StorageVersionMigration](c.cfg.Store.Snapshot(), migrations, "", name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if ended(stored, migrationv1.MigrationSucceeded) || ended(stored, migrationv1.MigrationFailed) {
		return 0, nil
	}
	if c.client == nil {
		if c.client, err = kubernetes.NewForConfig(c.cfg.REST); err != nil {
			return 0, err
		}
	}
	m := stored.DeepCopy()
	group := schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
	res, served := c.cfg.Registry.Current().ByName(group)
	if !served {
		if kind, ok := c.served(group); ok {
			return 0, c.syncServed(ctx, m, kind)
		}
	}
	if !served || res.Review != nil || res.Computed != nil {
		if age := time.Since(m.CreationTimestamp.Time); age < unknownFor {
			return unknownFor - age + time.Second, nil
		}
		return 0, c.end(ctx, m, migrationv1.MigrationFailed, "StorageVersionMigrationFailed",
			"resource does not exist in discovery")
	}
	if m.Status.ResourceVersion == "" {
		sn, err := c.cfg.Store.Fresh(ctx)
		if err != nil {
			return 0, err
		}
		m.Status.ResourceVersion = strconv.FormatUint(sn.Revision(), 10)
	}
	if err := c.begin(ctx, group, m.Name); err != nil {
		return 0, fmt.Errorf("report the migration of %s: %w", group, err)
	}
	// Reporting to the definition changed its revision, which the resource's writes check.
	if res, served = c.cfg.Registry.Current().ByName(group); !served {
		return time.Second, nil
	}
	if _, err := rest.Rewrite(ctx, c.cfg.Store, res, c.cfg.Store.Follows()); err != nil {
		return 0, fmt.Errorf("migrate %s: %w", group, err)
	}
	if err := c.finish(ctx, group); err != nil {
		return 0, fmt.Errorf("report the end of the migration of %s: %w", group, err)
	}
	return 0, c.succeed(ctx, m)
}

func ended(m *migrationv1.StorageVersionMigration, kind migrationv1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(kind))
}

func set(m *migrationv1.StorageVersionMigration, kind migrationv1.MigrationConditionType, status metav1.ConditionStatus,
	reason, message string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: string(kind), Status: status, Reason: reason,
		Message: message})
}

// succeed sets the condition Succeeded of a migration.
func (c *Controller) succeed(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	set(m, migrationv1.MigrationRunning, metav1.ConditionFalse, "MigrationCompleted", "Migration completed")
	return c.end(ctx, m, migrationv1.MigrationSucceeded, "StorageVersionMigrationSucceeded", "Migration completed")
}

// end writes the result of a migration.
func (c *Controller) end(ctx context.Context, m *migrationv1.StorageVersionMigration,
	kind migrationv1.MigrationConditionType, reason, message string) error {
	set(m, kind, metav1.ConditionTrue, reason, message)
	_, err := c.client.StoragemigrationV1().StorageVersionMigrations().UpdateStatus(ctx,
		m, metav1.UpdateOptions{FieldManager: manager})
	return follow.IgnoreGone(c.cfg.Store, store.Key{Resource: migrations, Name: m.Name}, m.UID, err)
}
