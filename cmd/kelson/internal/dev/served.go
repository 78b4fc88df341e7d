package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/cmd/kelson/internal/backend"
	"kelson.dev/cmd/kelson/internal/dev/devlog"
	"kelson.dev/operator/discovery"
)

// followServed logs changes of the objects of a custom API server, which are not in the store of
// the control plane. It returns when the watches have begun.
func (c *cluster) followServed(ctx context.Context, versions []schema.GroupVersion) (stop func(), err error) {
	d, err := discovery.New(discovery.Config{REST: c.rest})
	if err != nil {
		return nil, err
	}
	kinds, err := servedKinds(ctx, d, versions)
	if err != nil {
		return nil, err
	}
	watching, err := devlog.Watch(ctx, c.log, c.client, kinds)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, backend.Timeout)
	defer cancel()
	if err := watching.Begun(waiting); err != nil {
		watching.Stop()
		return nil, fmt.Errorf("watch the objects of the API server: %w", err)
	}
	return watching.Stop, nil
}

// servedKinds returns the kinds of the versions that can be watched, each in the first version that
// the cluster prefers.
func servedKinds(ctx context.Context, d *discovery.Client,
	versions []schema.GroupVersion) (kinds []schema.GroupVersionKind, err error) {
	groups, err := d.Groups(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[schema.GroupKind]bool{}
	for _, g := range groups {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			if !slices.Contains(versions, gv) {
				continue
			}
			resources, err := d.Resources(ctx, gv)
			if err != nil {
				return nil, err
			}
			for _, r := range resources {
				if kind := gv.WithKind(r.Kind); canBeWatched(r) && !seen[kind.GroupKind()] {
					seen[kind.GroupKind()] = true
					kinds = append(kinds, kind)
				}
			}
		}
	}
	return kinds, nil
}

func canBeWatched(r metav1.APIResource) bool {
	return !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
}
