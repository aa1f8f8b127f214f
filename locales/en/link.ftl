# Why there is no connection, for the screen and the one-shot commands. Every name begins with "link-".

link-untrusted = No authority that this machine trusts has signed the certificate of { $address }. If it is your own server, name its authority with --ca FILE or USHER_CA.
link-untrusted-by-named = The certificate of { $address } is not signed by an authority in the file that --ca or USHER_CA names.
link-other-name = The certificate of { $address } is made out to another name. Use a name that is in it, or give the server a certificate for this one.
link-expired = The certificate of { $address } has expired. Its server needs a new one.
link-not-yet-valid = The certificate of { $address } is not valid yet. Look whether the clock of this machine is right.
link-of-authority = { $address } shows the certificate of an authority as its own. It needs one that is not an authority’s (CA:FALSE).
link-bad-certificate = The certificate of { $address } cannot be used: { $detail }.
link-no-handshake = No encrypted connection to { $address } can be made: { $detail }.
link-not-encrypted = What answers at { $address } speaks no TLS. A server without a certificate is reached with ws:// instead of wss://.
link-not-plain = What answers at { $address } does not speak in the clear. A server with a certificate is reached with wss:// instead of ws://.
link-not-upgraded = What answers at { $address } is no usher server, or will not have this client (HTTP { $detail }). Check the address.
link-no-authorities = This machine has no list of authorities to trust. Install one (ca-certificates), or name the authority of { $address } with --ca FILE or USHER_CA.

## In the header: a few words, behind a sign

link-brief-untrusted = { $sign } certificate not trusted
link-brief-other-name = { $sign } certificate of another
link-brief-expired = { $sign } certificate expired
link-brief-bad-certificate = { $sign } certificate unusable
link-brief-no-handshake = { $sign } no encryption
link-brief-not-usher = { $sign } no usher server there
