package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// kind is one version of a resource in the peer's discovery.
type kind struct {
	group, version, resource, kind string
	namespaced                     bool
	verbs                          []string
	subresources                   []string
	sample                         map[string]any // nil: no sample
}

// apiVersion returns the apiVersion of the kind's objects.
func (k *kind) apiVersion() string {
	if k.group == "" {
		return k.version
	}
	return k.group + "/" + k.version
}

// String returns the kind's name in reports: "apps/v1/deployments".
func (k *kind) String() string { return k.apiVersion() + "/" + k.resource }

// root returns the path of the group version.
func (k *kind) root() string {
	if k.group == "" {
		return "/api/" + k.version
	}
	return "/apis/" + k.group + "/" + k.version
}

// collection returns the path of the objects, in a namespace if the kind is namespaced.
func (k *kind) collection(namespace string) string {
	if !k.namespaced {
		return k.root() + "/" + k.resource
	}
	return k.root() + "/namespaces/" + namespace + "/" + k.resource
}

func (k *kind) can(verb string) bool { return slices.Contains(k.verbs, verb) }

func (k *kind) has(subresource string) bool { return slices.Contains(k.subresources, subresource) }

// discover lists the kinds that a server serves.
func discover(ctx context.Context, s *side) ([]*kind, error) {
	var kinds []*kind
	samples, err := readSamples()
	if err != nil {
		return nil, err
	}
	for _, path := range []string{"/api", "/apis"} {
		st := step{method: http.MethodGet, path: path, header: map[string]string{
			"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}}
		a := s.send(ctx, &st, newMemory())
		if a.status != http.StatusOK {
			return nil, fmt.Errorf("%s%s: %d %s %v", s.name, path, a.status, a.failed, a.body)
		}
		for _, group := range at(a.body, "items").([]any) {
			name, _ := at(group, "metadata", "name").(string)
			for _, version := range at(group, "versions").([]any) {
				resources, _ := at(version, "resources").([]any)
				for _, r := range resources {
					k := &kind{group: name, version: at(version, "version").(string),
						resource: at(r, "resource").(string),
						kind:     fmt.Sprint(at(r, "responseKind", "kind")), namespaced: at(r, "scope") == "Namespaced",
						verbs: texts(at(r, "verbs"))}
					subs, _ := at(r, "subresources").([]any)
					for _, sub := range subs {
						k.subresources = append(k.subresources, at(sub, "subresource").(string))
					}
					k.sample = samples[k.apiVersion()+" "+k.kind]
					kinds = append(kinds, k)
				}
			}
		}
	}
	return kinds, nil
}

// at returns a nested field of a JSON value, or nil.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func texts(v any) (list []string) {
	values, _ := v.([]any)
	for _, value := range values {
		list = append(list, fmt.Sprint(value))
	}
	return list
}

//go:embed samples.yaml
var sampleText string

// readSamples returns the samples by apiVersion and kind.
func readSamples() (map[string]map[string]any, error) {
	request, err := certificateRequest()
	if err != nil {
		return nil, err
	}
	samples := map[string]map[string]any{}
	for doc := range strings.SplitSeq(strings.ReplaceAll(sampleText, "request: CSR", "request: "+request), "\n---\n") {
		data, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			return nil, fmt.Errorf("samples.yaml: %w", err)
		}
		v, err := decodeJSON(data)
		if err != nil {
			return nil, fmt.Errorf("samples.yaml: %w", err)
		}
		obj := v.(map[string]any)
		samples[fmt.Sprint(obj["apiVersion"], " ", obj["kind"])] = obj
	}
	return samples, nil
}

// certificateRequest creates a request for a client certificate, in the form that
// CertificateSigningRequests contain.
func certificateRequest() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "someone"}}, key)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		nil
}

// object returns the kind's sample with a name that belongs to a stream.
func (k *kind) object(own, name string) map[string]any {
	obj := clone(k.sample)
	replaceOwn(obj, own)
	meta, _ := obj["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	meta["name"] = name
	meta["labels"] = map[string]any{"stream": own, "name": label(name)}
	return obj
}

// label converts a name to a label value.
func label(name string) string { return name[max(0, len(name)-60):] }

func replaceOwn(v any, own string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == "OWN" {
				v[key] = own
			} else {
				replaceOwn(value, own)
			}
		}
	case []any:
		for _, value := range v {
			replaceOwn(value, own)
		}
	}
}
