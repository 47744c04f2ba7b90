// Package arch keeps the house in order: its tests read the whole source tree and fail on an import that points upwards
// (layers.txt), a function of more than 70 lines or a file of more than 800 (ratchet.txt lists the exceptions, which may
// only shrink), a package without doc.go, a goroutine, clock or global random source inside a core, generated
// documentation that no longer matches its table, and code that does not compile on some platform. It holds no product
// code. Start reading at layers.txt.
package arch
