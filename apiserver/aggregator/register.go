package aggregator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kelson.dev/apiserver/store"
)

// managedLabel marks the APIServices that the server keeps. The server does not change an
// APIService without the label.
const managedLabel = "kube-aggregator.kubernetes.io/automanaged"

// The values of managedLabel.
const (
	onStart = "onstart" // kept when the server starts
	always  = "true"    // kept all the time
)

// Register brings the stored local APIServices in line with local, the group versions that this
// server always serves. It creates missing ones, restores changed ones, and deletes those of other
// group versions. Call it when the server starts; Run keeps the APIServices of custom kinds. New
// ones are written as one unit, in the form that the POST of a client would produce.
func (a *Aggregator) Register(ctx context.Context, local []schema.GroupVersion) error {
	for {
		changed, err := a.createLocal(ctx, local)
		var conflict *store.ConflictError
		switch {
		case errors.As(err, &conflict) && ctx.Err() == nil: // another server created one first
		case err != nil:
			return fmt.Errorf("create local APIServices: %w", err)
		default:
			return a.restoreLocal(ctx, local, changed)
		}
	}
}

// RegisterVisibly is like Register, but creates each APIService with a request, so that admission
// and audit see it. It logs errors; the next start tries again.
func (a *Aggregator) RegisterVisibly(ctx context.Context, local []schema.GroupVersion) error {
	sn := a.cfg.Store.Snapshot()
	for _, gv := range local {
		if sn.Get(store.Key{Resource: Resource, Name: nameOf(gv)}) != nil {
			continue
		}
		if err := a.create(ctx, gv, onStart); err != nil {
			a.cfg.Log.Warn("create APIService", "apiservice", nameOf(gv), "err", err)
		}
	}
	return a.restoreLocal(ctx, local, local)
}

// createLocal commits the missing APIServices and returns the group versions of those that differ.
func (a *Aggregator) createLocal(ctx context.Context,
	local []schema.GroupVersion) (changed []schema.GroupVersion, err error) {
	sn, now := a.cfg.Store.Snapshot(), time.Now().UTC().Format(time.RFC3339)
	var ops []store.Op
	var want []byte
	for _, gv := range local {
		key := store.Key{Resource: Resource, Name: nameOf(gv)}
		want = a.appendLocalSpec(want[:0], gv)
		switch obj := sn.Get(key); {
		case obj == nil:
			ops = append(ops, store.Op{Key: key, Data: localObject(gv, want, string(uuid.NewUUID()), now)})
		case !bytes.Contains(obj.Data, want):
			changed = append(changed, gv)
		}
	}
	if len(ops) > 0 {
		_, err = a.cfg.Store.Commit(ctx, ops...)
	}
	return changed, err
}

// restoreLocal restores changed APIServices and deletes those that are not in local, if they have
// the managed label. Errors are logged: the server works without these APIServices, and the next
// start tries again.
func (a *Aggregator) restoreLocal(ctx context.Context, local, changed []schema.GroupVersion) error {
	sn := a.cfg.Store.Snapshot()
	for _, gv := range changed {
		obj := sn.Get(store.Key{Resource: Resource, Name: nameOf(gv)})
		if obj == nil || obj.Head.Labels[managedLabel] != onStart {
			continue
		}
		if err := a.restore(ctx, obj, a.localSpec(gv)); err != nil {
			a.cfg.Log.Warn("restore APIService", "apiservice", obj.Key.Name, "err", err)
		}
	}
	for obj := range sn.Scan(Resource, "", store.Key{}) {
		if obj.Head.Labels[managedLabel] == onStart && !slices.Contains(local, versionOf(obj.Key.Name)) {
			if err := a.delete(ctx, obj); err != nil {
				a.cfg.Log.Warn("delete APIService", "apiservice", obj.Key.Name, "err", err)
			}
		}
	}
	return ctx.Err()
}

// localSpec returns the spec of a local APIService.
func (a *Aggregator) localSpec(gv schema.GroupVersion) *spec {
	p := a.cfg.Priorities(gv)
	return &spec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.Group, VersionPriority: p.Version}
}

// appendLocalSpec appends the member spec of a local APIService as it is stored. Groups and
// versions are DNS names, which need no quoting.
func (a *Aggregator) appendLocalSpec(to []byte, gv schema.GroupVersion) []byte {
	p := a.cfg.Priorities(gv)
	to = append(to, `"spec":{`...)
	if gv.Group != "" {
		to = append(append(append(to, `"group":"`...), gv.Group...), `",`...)
	}
	to = append(append(append(to, `"version":"`...), gv.Version...), `","groupPriorityMinimum":`...)
	to = strconv.AppendInt(to, int64(p.Group), 10)
	to = strconv.AppendInt(append(to, `,"versionPriority":`...), int64(p.Version), 10)
	return append(to, '}')
}

// localConditionEnd is the end of a stored local APIService.
const localConditionEnd = `"reason":"Local","message":"Local APIServices are always available"}]}}`

// localObject returns a local APIService in the form in which a POST would store it.
func localObject(gv schema.GroupVersion, spec []byte, uid, now string) []byte {
	group := ""
	if gv.Group != "" {
		group = `"f:group":{},`
	}
	return fmt.Appendf(nil, `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":%q,"uid":%q,"creationTimestamp":%q,`+
		`"labels":{%q:%q},"managedFields":[{"manager":"kube-apiserver","operation":"Update","apiVersion":"apiregistration.k8s.io/v1",`+
		`"time":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:%s":{}}},"f:spec":{%s"f:groupPriorityMinimum":{},`+
		`"f:version":{},"f:versionPriority":{}}}}]},%s,"status":{"conditions":[{"type":"Available","status":"True",`+
		`"lastTransitionTime":%q,`+localConditionEnd,
		nameOf(gv), uid, now, managedLabel, onStart, now, managedLabel, group, spec, now)
}

// restore replaces the spec of an APIService.
func (a *Aggregator) restore(ctx context.Context, obj *store.Object, want *spec) error {
	service, err := decode(obj)
	if err != nil || service.Spec.equal(want) {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": service.Metadata.ResourceVersion},
		"spec": map[string]any{
			"service": nil, "insecureSkipTLSVerify": nil, "caBundle": nil,
			"groupPriorityMinimum": want.GroupPriorityMinimum, "versionPriority": want.VersionPriority,
		},
	})
	if err != nil {
		return err
	}
	return a.ignoreOvertaken(obj.Key.Name, obj, a.write(ctx, http.MethodPatch, collection+"/"+obj.Key.Name, patch))
}

// delete deletes an APIService, unless it was replaced by another object.
func (a *Aggregator) delete(ctx context.Context, obj *store.Object) error {
	options, err := json.Marshal(map[string]any{
		"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": map[string]any{"uid": obj.Head.UID},
	})
	if err != nil {
		return err
	}
	return a.ignoreOvertaken(obj.Key.Name, obj, a.write(ctx, http.MethodDelete, collection+"/"+obj.Key.Name, options))
}

// create creates a local APIService.
func (a *Aggregator) create(ctx context.Context, gv schema.GroupVersion, label string) error {
	body, err := json.Marshal(map[string]any{
		"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1",
		"metadata": map[string]any{"name": nameOf(gv), "labels": map[string]string{managedLabel: label}},
		"spec":     a.localSpec(gv),
	})
	if err != nil {
		return err
	}
	return a.ignoreOvertaken(nameOf(gv), nil, a.write(ctx, http.MethodPost, collection, body))
}
