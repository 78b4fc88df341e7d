// Command outside serves a custom resource. Its module requires only kelson.dev/apiserver.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
)

func main() {
	st, err := store.Open(store.Config{}) // in memory
	check(err)
	registry := resource.NewRegistry()
	verbs := rest.New(rest.Config{Store: st, Registry: registry})
	kinds, err := crd.New(crd.Config{Store: st, Registry: registry, Objects: func() resource.Objects { return verbs }})
	check(err)
	registry.Put(kinds.Resource())
	check(kinds.Load())
	go kinds.Run(context.Background())
	groups := discovery.New(discovery.Config{Registry: registry})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("http://%s\n", listener.Addr())
	check(http.Serve(listener, filters.New(filters.Config{Resources: verbs, Paths: map[string]http.Handler{"/api/": groups, "/apis": groups, "/apis/": groups}})))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
