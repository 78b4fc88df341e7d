package crd_test

import (
	"fmt"
	"strings"
	"testing"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

func BenchmarkDefinition(b *testing.B) {
	b.Run("create", func(b *testing.B) {
		p := newPlane(b)
		i := 0
		for b.Loop() {
			i++
			p.do("POST", definitionsPath, widgets("example.com", fmt.Sprintf("g%d.example.com", i))).want(201)
		}
	})
	b.Run("create and first instance", func(b *testing.B) {
		p := newPlane(b)
		i := 0
		for b.Loop() {
			i++
			group := fmt.Sprintf("g%d.example.com", i)
			p.do("POST", definitionsPath, widgets("example.com", group)).want(201)
			p.do("POST", strings.Replace(widgetsPath, "example.com", group, 1),
				strings.Replace(widget("a", `{"color":"green"}`), "example.com", group, 1)).want(201)
		}
	})
}

func BenchmarkInstance(b *testing.B) {
	b.Run("create", func(b *testing.B) {
		p := newPlane(b)
		p.do("POST", definitionsPath, widgets()).want(201)
		i := 0
		for b.Loop() {
			i++
			p.do("POST", widgetsPath, widget(fmt.Sprint("w", i), `{"color":"green","ports":[{"port":1}]}`)).want(201)
		}
	})
	b.Run("get", func(b *testing.B) {
		p := newPlane(b)
		p.do("POST", definitionsPath, widgets()).want(201)
		p.do("POST", widgetsPath, widget("a", `{"color":"green","ports":[{"port":1}]}`)).want(201)
		for b.Loop() {
			p.do("GET", widgetsPath+"/a", "").want(200)
		}
	})
}

func BenchmarkNew(b *testing.B) {
	s := storetest.New(b, store.Config{})
	for b.Loop() {
		d, err := crd.New(crd.Config{Store: s, Registry: resource.NewRegistry(), Objects: func() resource.Objects {
			return nil
		}})
		require.NoError(b, err)
		_ = d.Load()
	}
}

func BenchmarkCodec(b *testing.B) {
	p := newPlane(b)
	p.do("POST", definitionsPath, widgets()).want(201)
	res, _ := p.registry.Current().ByName(resourceOf("widgets"))
	body := []byte(widget("a", `{"color":"green","ports":[{"port":1}],"free":{"a":{"b":[1,2,3]}}}`))
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			_, _, err := res.Codec.Decode(body, resource.MediaJSON, "v1")
			require.NoError(b, err)
		}
	})
	p.do("POST", widgetsPath, string(body)).want(201)
	obj := p.store.Snapshot().Get(res.Key("default", "a"))
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			_, err := res.Codec.Load(obj.Data)
			require.NoError(b, err)
		}
	})
}
