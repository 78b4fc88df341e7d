package main

import (
	"fmt"
	"net/http"
	"strings"
)

// accepts are Accept headers, valid and invalid.
var accepts = []struct{ label, media string }{
	{"none", ""}, {"any", "*/*"}, {"json", "application/json"}, {"protobuf", mediaProtobuf}, {"cbor", mediaCBOR},
	{"yaml", mediaYAML},
	{"table", asTable}, {"partial", asPartial}, {"partial list", asPartialList},
	{"table v1beta1", "application/json;as=Table;v=v1beta1;g=meta.k8s.io"},
	{"table in protobuf", "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"},
	{"table in yaml", "application/yaml;as=Table;v=v1;g=meta.k8s.io"},
	{"table in cbor", "application/cbor;as=Table;v=v1;g=meta.k8s.io"},
	{"partial in protobuf", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
	{"partial list in protobuf", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
	{"partial in cbor", "application/cbor;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"},
	{"kubectl's", asTable + ",application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"},
	{"client-go's", "application/vnd.kubernetes.protobuf,application/json"},
	{"no such kind", "application/json;as=Nothing;v=v1;g=meta.k8s.io"},
	{"no such group", "application/json;as=Table;v=v1;g=example.com"},
	{"xml", "application/xml"}, {"nonsense", "nonsense"}, {"xml or json", "application/xml, application/json;q=0.5"},
	{"pretty", "application/json;pretty=1"}, {"stream", "application/json;stream=watch"},
	{"charset", "application/json;charset=utf-8"},
	{"q zero", "application/json;q=0"}, {"text", "text/plain"}, {"application any", "application/*"},
}

// reads reads existing and missing objects, in all representations.
func (b *builder) reads() {
	if !b.can("get") {
		return
	}
	for _, a := range accepts {
		b.add("get "+a.label, http.MethodGet, b.named("a"), accept(a.media))
		b.add("list "+a.label, http.MethodGet, b.listing(), accept(a.media))
		b.add("get missing "+a.label, http.MethodGet, b.named("missing"), accept(a.media))
	}
	for _, query := range []string{"pretty=true", "resourceVersion=0", "resourceVersion=1", "resourceVersion={rv:a}",
		"resourceVersion=abc",
		"resourceVersion=-1", "unknown=1", "timeoutSeconds=x", "dryRun=All", "includeObject=None"} {
		b.add("get ?"+query, http.MethodGet, b.named("a", query))
	}
	if b.resource == "configmaps" { // the peer waits three seconds for future revisions
		b.add("get future", http.MethodGet, b.named("a", "resourceVersion=99999999999"))
		b.add("list future", http.MethodGet, b.listing("resourceVersion=99999999999"))
		b.add("list exact future", http.MethodGet, b.listing("resourceVersion=99999999999&resourceVersionMatch=Exact"))
	}
	for _, include := range []string{"None", "Metadata", "Object", "Other"} {
		b.add("get table include "+include, http.MethodGet, b.named("a", "includeObject="+include), accept(asTable))
		b.add("list table include "+include, http.MethodGet, b.listing("includeObject="+include), accept(asTable))
	}
	b.add("head", http.MethodHead, b.named("a"))
	b.add("head list", http.MethodHead, b.listing())
	b.add("get slash", http.MethodGet, b.named("a")+"/")
	b.add("get no subresource", http.MethodGet, b.sub("a", "nothing"))
	b.add("get deep", http.MethodGet, b.sub("a", "status/deep"))
	b.add("get bad name", http.MethodGet, b.named("Bad_Name"))
	b.add("get encoded name", http.MethodGet, b.coll()+"/a%2Fb")
	b.add("list slash", http.MethodGet, b.coll()+"/")
	b.wrongMethods()
	b.lists()
}

func (b *builder) wrongMethods() {
	b.add("post to an object", http.MethodPost, b.named("a"), body(b.obj("a")))
	b.add("put to a collection", http.MethodPut, b.coll(), body(b.obj("a")))
	b.add("patch to a collection", http.MethodPatch, b.coll(), bytesBody(mergePatch, `{}`))
	b.add("options", http.MethodOptions, b.named("a"))
	b.add("trace", http.MethodTrace, b.named("a"))
	b.add("unknown method", "FROB", b.named("a"))
	b.add("unknown method to a collection", "FROB", b.coll())
	if b.namespaced {
		all := b.root() + "/" + b.resource
		b.add("post across namespaces", http.MethodPost, all, body(b.obj("a")))
		b.add("delete across namespaces", http.MethodDelete, all)
		b.add("get without namespace", http.MethodGet, all+"/a")
		b.add("put without namespace", http.MethodPut, all+"/a", body(b.obj("a")))
		b.add("delete without namespace", http.MethodDelete, all+"/a")
		b.add("list of one namespace across all", http.MethodGet, all+"?fieldSelector=metadata.namespace%3D"+b.own)
	} else {
		inside := b.root() + "/namespaces/" + b.own + "/" + b.resource
		b.add("list in a namespace", http.MethodGet, inside)
		b.add("get in a namespace", http.MethodGet, inside+"/a")
		b.add("post in a namespace", http.MethodPost, inside, body(b.obj("b")))
	}
}

// lists lists with selectors, limits and revisions, valid and invalid.
func (b *builder) lists() {
	for _, query := range []string{
		"labelSelector=name%3Da", "labelSelector=name+in+(a,b)", "labelSelector=name+notin+(a)", "labelSelector=!name",
		"labelSelector=name!%3Da",
		"labelSelector=name%3D%3Da,stream", "labelSelector=%3D", "labelSelector=a+b", "labelSelector=a%3D-",
		"labelSelector=name+in+()",
		"labelSelector=name+in+(a", "labelSelector=a/b/c%3D1", "labelSelector=x>1", "labelSelector=x>a",
		"labelSelector=" + strings.Repeat("a", 64),
		"fieldSelector=metadata.name%3D" + b.fullName("a"), "fieldSelector=metadata.name!%3D" + b.fullName("a"),
		"fieldSelector=spec.nothing%3Da",
		"fieldSelector=metadata.name", "fieldSelector=metadata.name%3Da,metadata.name%3Db",
		"fieldSelector=metadata.namespace%3D" + b.own,
		"fieldSelector=metadata.labels%3Da", "fieldSelector=%3D", "fieldSelector=metadata.name%3DBad_Name",
		"fieldSelector=status.phase%3DPending",
		"fieldSelector=type%3DOpaque", "fieldSelector=spec.nodeName%3D",
		"fieldSelector=metadata.name%3D" + b.fullName("a") + "%5C%2C",
		"limit=1", "limit=0", "limit=-1", "limit=x", "limit=1.5", "limit=99999999999999999999", "continue=abc",
		"continue=%00", "limit=1&continue=YWJj",
		"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
		"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiYSJ9",
		"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIifQ",
		"continue=eyJ2IjoiZm9vIiwicnYiOjEsInN0YXJ0IjoiYSJ9",
		"resourceVersion=0", "resourceVersion={rv:a}", "resourceVersion={rv:a}&resourceVersionMatch=NotOlderThan",
		"resourceVersion={rv:b}&resourceVersionMatch=Exact", "resourceVersion={rv:a}&resourceVersionMatch=Exact",
		"resourceVersion=0&resourceVersionMatch=Exact",
		"resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan",
		"resourceVersion=1&resourceVersionMatch=Other",
		"resourceVersion=abc", "resourceVersion=-1",
		"resourceVersion=0&limit=1", "resourceVersion={rv:a}&limit=1",
		"resourceVersion={rv:a}&limit=1&resourceVersionMatch=Exact",
		"resourceVersion=0&limit=1&resourceVersionMatch=NotOlderThan", "continue=abc&resourceVersion=1",
		"continue=abc&resourceVersionMatch=Exact",
		"sendInitialEvents=true", "sendInitialEvents=false", "sendInitialEvents=x", "allowWatchBookmarks=true",
		"timeoutSeconds=x", "timeoutSeconds=-1",
		"watch=x&timeoutSeconds=1&labelSelector=nothing", "watch=0", "watch=false", "pretty=1", "pretty=x", "unknown=1",
		"dryRun=All", "shardSelector=x",
	} {
		label := strings.ReplaceAll(query, b.own, "OWN")
		var opts []option
		if strings.HasPrefix(query, "watch=x") { // any value means true
			opts = append(opts, events)
		}
		b.add("list ?"+label, http.MethodGet, b.listing(query), opts...)
	}
	b.pages("limit=1")
	b.pages("limit=2&resourceVersion=0")
	b.add("list page in table", http.MethodGet, b.listing("limit=1"), accept(asTable), save("tablepage"))
	b.add("list page in table, next", http.MethodGet, b.listing("limit=1&continue={continue:tablepage}"),
		accept(asTable))
	b.add("list page with another selector", http.MethodGet,
		b.coll("limit=1&labelSelector=stream%3D"+b.own+"&continue={continue:page1-0}"))
	b.add("list page of protobuf", http.MethodGet, b.listing("limit=1"), accept(mediaProtobuf))
}

// pages reads a list to its end.
func (b *builder) pages(query string) {
	limit, _, _ := strings.Cut(query, "&")
	name := "page" + strings.TrimPrefix(limit, "limit=")
	for i := range 4 {
		q := query
		if i > 0 {
			q = fmt.Sprintf("%s&continue={continue:%s-%d}", limit, name, i-1)
		}
		b.add("list page "+query, http.MethodGet, b.listing(q), save(fmt.Sprintf("%s-%d", name, i)))
	}
}
