// Package wire encodes responses: it negotiates the representation and assembles objects, lists,
// watch events and errors.
//
// It works with bare encodings. A bare encoding is one object in one media type, in the form in
// which lists contain it: an element of a JSON list, a field of a protobuf list, or an item of a
// CBOR array. Callers create bare encodings once ([Encode]) and keep them; the package wraps them
// without copying or decoding them.
//
//	                 ┌─▶ Object  one response     {…}\n          k8s\0 + Unknown{…}      tag + map
//	object ─Encode─▶ │─▶ List    concatenation    {"items":[…]}  repeated field 2        array
//	      (bare)     └─▶ Event   one watch frame  {"type":…}\n   length + WatchEvent     tag + map
//
// JSON, protobuf and CBOR have bare encodings; YAML and indented JSON are derived from the finished
// JSON.
//
// All functions are safe for concurrent use and keep no state.
//
//	format, err := wire.Negotiate(req, wire.Allow{Table: true})
//	if err != nil {
//		wire.Error(w, req, err) // 406
//		return
//	}
//	wire.Object(w, req, http.StatusOK, format, gvk, bare)
package wire
