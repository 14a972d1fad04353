#!/bin/sh
# Makes the key stores that the tests read, with Java's and OpenSSL's own tools. The key is
# for tests only. Run it in this folder; keytool (17 or later) and openssl are needed.
set -eu
rm -f ./*.jks ./*.p12 ./*.pem
keytool -genkeypair -alias k -keyalg EC -groupname secp256r1 -dname CN=localhost -ext san=dns:localhost,ip:127.0.0.1 \
	-validity 36500 -storetype JKS -keystore key.jks -storepass storepw -keypass keypass
keytool -importkeystore -srckeystore key.jks -srcstorepass storepw -srckeypass keypass -srcalias k \
	-destkeystore key.p12 -deststoretype PKCS12 -deststorepass storepw -destkeypass storepw
keytool -exportcert -rfc -alias k -keystore key.jks -storepass storepw >cert.pem
keytool -importcert -noprompt -alias ca -file cert.pem -storetype JKS -keystore trust.jks -storepass storepw
keytool -importcert -noprompt -alias ca -file cert.pem -storetype PKCS12 -keystore trust.p12 -storepass storepw
openssl pkcs12 -in key.p12 -passin pass:storepw -nodes -nocerts | openssl pkcs8 -topk8 -nocrypt >key.pem
openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256 -in key.pem -passout pass:keypass >sealed.pem
openssl pkcs12 -export -legacy -inkey key.pem -in cert.pem -passout pass:storepw -out legacy.p12
