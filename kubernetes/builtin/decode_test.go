package builtin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
	"kelson.dev/internal/strictjson"
	"kelson.dev/kubernetes/builtin"
)

// Bodies, patched objects and stored objects decode to the same hubs, warnings and errors with and
// without fast paths: valid and invalid random objects of every kind. Some defaults are the current
// time, so both decode in a bubble, whose clock stands still.
func TestDecodeMatchesLibrary(t *testing.T) {
	fast, err := builtin.Resources(builtin.Config{})
	require.NoError(t, err)
	slow, err := builtin.Resources(builtin.Config{NoFastPaths: true})
	require.NoError(t, err)
	decoder := strictjson.New(builtin.Scheme())
	decoded, all := 0, 0
	for i, r := range fast {
		if r.Review != nil || r.Computed != nil {
			continue
		}
		for _, version := range r.Versions {
			kind := r.GVK(version.Name)
			same := func(t *testing.T) {
				c := &comparison{T: t, codec: r.Codec.(*builtin.Codec), kind: kind}
				c.begin()
				for seed := range uint64(40) {
					random := &randomTree{Rand: rand.New(rand.NewPCG(seed, 11)), types: c.types, valid: seed%4 != 0,
						nonEmpty: seed%4 == 1}
					body, err := json.Marshal(random.object(t, kind))
					require.NoError(t, err)
					if seed%8 == 0 { // damage it
						body[random.IntN(len(body))] = `{}[]",:0ntx`[random.IntN(11)]
					}
					if _, ok := decoder.Decode(body, kind); ok {
						decoded++
					}
					all++
					for name, decode := range map[string]func(resource.Codec) (any, []error, error){
						"body": func(c resource.Codec) (any, []error, error) {
							return c.Decode(body, resource.MediaJSON, version.Name)
						},
						"patched": func(c resource.Codec) (any, []error, error) {
							return c.DecodePatched(body, version.Name)
						},
						"stored": func(c resource.Codec) (any, []error, error) {
							obj, err := c.Load(body)
							return obj, nil, err
						},
					} {
						got, gotStrict, gotErr := decode(r.Codec)
						want, wantStrict, wantErr := decode(slow[i].Codec)
						if !reflect.DeepEqual(got, want) ||
							fmt.Sprint(gotStrict, gotErr) != fmt.Sprint(wantStrict, wantErr) {
							t.Errorf("%s %s:\n got %+v %v %v\nwant %+v %v %v", name, body, got, gotStrict, gotErr, want,
								wantStrict, wantErr)
						}
					}
				}
			}
			t.Run(fmt.Sprint(r.Plural, ".", kind.GroupVersion()), func(t *testing.T) { synctest.Test(t, same) })
		}
	}
	if decoded < all/2 {
		t.Errorf("the fast path decoded %d of %d objects", decoded, all)
	}
	t.Logf("the fast path decoded %d of %d objects", decoded, all)
}
