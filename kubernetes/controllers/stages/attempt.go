package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/operator/client"
)

// attempt applies a Stage to an object.
type attempt struct {
	job     *job
	key     store.Key
	program *stage.Program
	object  *stage.Object

	actions  []stage.Action // the remaining steps; nil before the first attempt
	failures int
	changed  *unstructured.Unstructured // the result of the last patch
}

// play carries out the actions of an attempt. If one fails, play repeats it later and then
// continues with the others.
func (k *kind) play(a *attempt) {
	c := k.controller
	select {
	case c.limit <- struct{}{}:
		defer func() { <-c.limit }()
	case <-k.life.Done():
		return
	}
	if !k.take(a.key, a.job) {
		return // a newer state of the object is planned
	}
	if a.actions == nil {
		var err error
		if a.actions, err = a.program.Actions(a.object, c.functions(a.object)); err != nil {
			c.cfg.Log.Warn("apply Stage", "object", a.key, "error", err)
			return
		}
	}
	for len(a.actions) > 0 {
		err := c.do(k.life, a, a.actions[0])
		if err != nil && k.life.Err() == nil {
			k.failed(a, err)
			return
		}
		a.actions = a.actions[1:]
	}
	if a.program.Immediate && a.changed != nil {
		k.continueWith(a)
	}
}

// failed plans the next attempt, unless none can succeed.
func (k *kind) failed(a *attempt, err error) {
	log := k.controller.cfg.Log.With("stage", a.program.Name, "object", a.key, "error", err)
	if !follow.Exists(k.controller.cfg.Store, a.key, a.object.GetUID()) {
		return // deleted or replaced
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || errors.Is(err, errTemplate) {
		log.Warn("apply Stage")
		return
	}
	log.Warn("apply Stage; will retry")
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.jobs[a.key] != nil {
		return // a newer state of the object is planned
	}
	delay := backoff(a.failures)
	a.failures++
	a.job = &job{revision: a.job.revision}
	k.jobs[a.key] = a.job
	k.after(delay, func() { k.play(a) }, a.job)
}

// continueWith plans the next Stage for the result of this one, without waiting for its event.
func (k *kind) continueWith(a *attempt) {
	data, err := a.changed.MarshalJSON()
	if err != nil {
		return
	}
	o, err := stage.NewObject(data, a.object.GetAPIVersion(), a.object.GetKind())
	if err != nil {
		return
	}
	revision, err := strconv.ParseUint(a.changed.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	k.mu.Lock()
	planned := k.jobs[a.key]
	k.mu.Unlock()
	if planned == nil { // otherwise the event of this write has already been planned
		k.plan(a.key, revision, o)
	}
}

// errTemplate means that the result of a template can't be applied.
var errTemplate = errors.New("result of the template")

// do carries out one action.
func (c *Controller) do(ctx context.Context, a *attempt, action stage.Action) error {
	switch {
	case action.Event != nil:
		kind := action.Event.Type
		if kind == "" {
			kind = corev1.EventTypeNormal
		}
		c.events.Recorder("kwok").Event(a.object.Unstructured, kind, action.Event.Reason, action.Event.Message)
		return nil
	case action.Delete:
		err := c.client.Delete(ctx, reference(a.object), client.GracePeriodSeconds(0),
			client.Preconditions{UID: a.object.GetUID()})
		return follow.IgnoreGone(c.cfg.Store, a.key, a.object.GetUID(), err)
	case action.Other:
		return c.apply(ctx, a, action)
	}
	return c.patch(ctx, a, action)
}

// reference returns an object with the identity of another.
func reference(o *stage.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(o.GroupVersionKind())
	u.SetNamespace(o.GetNamespace())
	u.SetName(o.GetName())
	return u
}

func (c *Controller) patch(ctx context.Context, a *attempt, action stage.Action) error {
	data := action.Data
	if action.Type != types.JSONPatchType {
		var err error
		if data, err = withUID(data, a.object.GetUID()); err != nil {
			return err
		}
	}
	if a.object.GroupVersionKind() == podKind && action.Subresource == "status" {
		c.nodes.HandOver(a.key) // otherwise the simulation would report its own status again
	}
	result := reference(a.object)
	if err := c.write(ctx, action, result, client.RawPatch(action.Type, data)); err != nil {
		return err
	}
	a.changed = result
	return nil
}

// withUID adds the object's uid to a patch, so that it fails for another object of the same name.
func withUID(data []byte, uid types.UID) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", errTemplate, err)
	}
	if fields == nil {
		fields = map[string]any{}
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["uid"] = string(uid)
	fields["metadata"] = metadata
	return json.Marshal(fields)
}

// apply creates or changes the object that a template describes.
func (c *Controller) apply(ctx context.Context, a *attempt, action stage.Action) error {
	other := &unstructured.Unstructured{}
	if err := json.Unmarshal(action.Data, &other.Object); err != nil {
		return fmt.Errorf("%w: %w", errTemplate, err)
	}
	if other.GetAPIVersion() == "" || other.GetKind() == "" || other.GetName() == "" {
		return fmt.Errorf("%w: an object to apply needs apiVersion, kind and metadata.name", errTemplate)
	}
	if other.GetNamespace() == "" {
		if res, ok := c.cfg.Registry.Current().ByKind(other.GroupVersionKind().GroupKind()); ok && res.Namespaced {
			other.SetNamespace(a.object.GetNamespace())
		}
	}
	if action.Subresource == "" {
		writer, err := c.clientAs(action.User)
		if err != nil {
			return err
		}
		if err := writer.Create(ctx, other.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	data, err := json.Marshal(other.Object)
	if err != nil {
		return err
	}
	return c.write(ctx, action, other, client.RawPatch(action.Type, data))
}

// write sends a patch to the object or its subresource, as the user of the action.
func (c *Controller) write(ctx context.Context, action stage.Action, result *unstructured.Unstructured,
	patch client.Patch) error {
	writer, err := c.clientAs(action.User)
	if err != nil {
		return err
	}
	var options []client.WriteOption
	if action.Type == types.ApplyPatchType {
		options = append(options, client.ForceOwnership)
	}
	if action.Subresource != "" {
		return writer.Subresource(action.Subresource).Patch(ctx, result, patch, options...)
	}
	return writer.Patch(ctx, result, patch, options...)
}

// clientAs returns a client that acts as a user.
func (c *Controller) clientAs(user string) (client.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached := c.clients[user]; cached != nil {
		return cached, nil
	}
	config := rest.CopyConfig(c.cfg.REST)
	config.Impersonate.UserName = user
	created, err := client.New(client.Config{REST: config, FieldOwner: "kwok"})
	if err != nil {
		return nil, err
	}
	c.clients[user] = created
	return created, nil
}
