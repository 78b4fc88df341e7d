// Package internal contains the tests of small packages in this folder, each in a file with the
// package's name. One program for all of them is linked faster.
//
// The module kelson.dev/internal has what the engine, the operator library and the product share.
// All modules of Kelson can import it, because their paths begin with kelson.dev/; no other module
// can.
package internal
