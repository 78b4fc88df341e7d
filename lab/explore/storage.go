package explore

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver/store"
	"kelson.dev/operator/client"
)

// StorageVersion changes the storage version of a definition with several versions, and writes all
// its objects again, as a user does who migrates them after an upgrade of the definition. When the
// operator is quiet, the version is changed back in the same way. The objects must be as before
// (O8): a conversion, or a schema without a field, may lose values.
const StorageVersion Kind = "storage-version"

// definitions is the resource of CustomResourceDefinitions.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// definitions adds the changes of the storage versions of definitions of which objects exist.
func (p *probe) definitions(t *trial, n int) {
	used := map[string]bool{}
	for key, obj := range t.history.now {
		used[key.Resource] = used[key.Resource] || obj != nil
	}
	for stored := range t.setup.env.Plane().Store().Snapshot().Scan(definitions, "", store.Key{}) {
		definition, err := decode(stored)
		if err != nil || !used[definition.GetName()] {
			continue
		}
		if _, other := storageVersions(definition); other != "" {
			p.add(Fault{Kind: StorageVersion,
				At: Point{Verb: after, Resource: definitions, Object: definition.GetName(), N: n}})
		}
	}
}

// storageVersions returns the storage version of a definition, and another served version, or "" if
// there is none.
func storageVersions(definition *unstructured.Unstructured) (storage, other string) {
	for _, v := range versionsOf(definition) {
		name, _ := v["name"].(string)
		switch {
		case v["storage"] == true:
			storage = name
		case v["served"] == true && other == "":
			other = name
		}
	}
	return storage, other
}

// versionsOf returns the versions of a definition.
func versionsOf(definition *unstructured.Unstructured) (versions []map[string]any) {
	all, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range all {
		if version, ok := v.(map[string]any); ok {
			versions = append(versions, version)
		}
	}
	return versions
}

// changeStorage performs StorageVersion.
func (a *actions) changeStorage(name string, before State) bool {
	definition := a.setup.stored(call{resource: definitions, object: name})
	if definition == nil {
		a.result.failed = fmt.Errorf("no definition has the name %s", name)
		return false
	}
	a.history.excluded[name] = true // its status lists all former storage versions
	first, other := storageVersions(definition)
	for _, version := range []string{other, first} {
		a.result.log(fmt.Sprintf("the storage version of %s becomes %s", name, version))
		refusals := a.users.refusals
		ok := a.users.try(func(ctx context.Context, c client.Client) error {
			return setStorage(ctx, c, name, version)
		}) && a.trial.settle() && a.users.try(func(ctx context.Context, c client.Client) error {
			return a.migrate(ctx, c, name)
		})
		if a.users.refusals > refusals {
			a.result.failed = fmt.Errorf("the server refuses %s as the storage version of %s", version, name)
			return false
		}
		if !ok || !a.trial.settle() {
			return false
		}
	}
	return a.trial.oracles.checkSame("O8", "a change of the storage version and its reverse leave another state",
		before, "before")
}

// setStorage changes the storage version of a definition.
func setStorage(ctx context.Context, c client.Client, name, storage string) error {
	definition, err := read(ctx, c, definitionKind, client.Key{Name: name})
	if err != nil {
		return err
	}
	var versions []any
	for _, v := range versionsOf(definition) {
		v["storage"] = v["name"] == storage
		versions = append(versions, v)
	}
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		return err
	}
	return c.Update(ctx, definition)
}

// migrate writes all objects of a definition again, unchanged.
func (a *actions) migrate(ctx context.Context, c client.Client, name string) error {
	for stored := range a.setup.env.Plane().Store().Snapshot().Scan(name, "", store.Key{}) {
		obj, err := decode(stored)
		if err != nil {
			return err
		}
		kind := schema.FromAPIVersionAndKind(obj.GetAPIVersion(), obj.GetKind())
		current, err := read(ctx, c, kind, client.KeyOf(obj))
		if err == nil {
			err = c.Update(ctx, current)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
