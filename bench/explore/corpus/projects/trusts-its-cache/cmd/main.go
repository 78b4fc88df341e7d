// Command main is the operator trusts-its-cache of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("trusts-its-cache") }
